"""The daemon's loop and API on stand-ins: the wire of VICI, a kernel in Python, a real socket and real files."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ikeorch.cli.client import RefusedError
from ikeorch.config.loader import read_config
from ikeorch.core.allocate import Kind
from ikeorch.core.establish import CONFIRM_GONE
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import Family, KernelObject, KernelState, NextHop, NextHopGroup
from ikeorch.core.spec import Initiate, WhenUnreachable
from ikeorch.daemon.pace import REPAIR_SETTLE
from ikeorch.daemon.pass_result import PassResult
from ikeorch.errors import KernelError
from ikeorch.store.database import Store
from pki.issue import GatewayCredentials, create_ca, issue_gateway, new_key, new_serial
from pki.profiles import CaProfile, GatewayProfile
from pki.store import save_gateway
from tests.fakes.fake_charon import Disturbance
from tests.integration.world import World, members, until, up


async def test_a_gateway_is_built_in_a_few_passes_and_then_left_alone(world: World) -> None:
    """Connections, SAs, proof, group; the pass after that plans nothing."""
    await world.passes(2)
    for index in range(4):
        world.charon.establish(f"ikeorch.gw-b.{index}")
    world.prober.answering = True
    await world.passes(3)
    result = await world.passes()
    assert result.planned == ()
    assert result.conditions == ()
    assert [status.state.value for status in result.tunnels] == ["carrying"] * 4
    groups = [entry for entry in result.actual.kernel.objects.values() if isinstance(entry, NextHopGroup)]  # type: ignore[union-attr]
    assert [len(group.members) for group in groups] == [4, 4]


async def test_a_lost_charon_is_a_condition_and_deletes_nothing(world: World) -> None:
    """Unknown is not absent: the kernel's objects stay byte for byte."""
    world.prober.answering = True
    await world.passes(3)
    before = world.kernel.render()
    await world.charon.stop()
    result = await world.passes()
    assert [condition.code.value for condition in result.conditions] == ["charon-unreachable"]
    assert world.kernel.render() == before


async def test_one_failing_tunnel_does_not_stop_the_others(world: World) -> None:
    """The failure is a condition; the next pass heals it."""
    world.kernel.fail_next(KernelError("interface ikx2: no"), ("interface", "ikx2"))
    result = await world.passes()
    failed = [condition.message for condition in result.conditions if condition.code.value == "action-failed"]
    assert "interface ikx2: no" in failed
    assert {TunnelId("gw-b", 1)} == set(result.desired.tunnels) - done(result)
    result = await world.passes(2)
    assert [condition for condition in result.conditions if condition.code.value == "action-failed"] == []
    assert len(world.prober.targets) == 4


def done(result: PassResult) -> set[TunnelId]:
    """Tunnels none of whose actions failed."""
    return set(result.desired.tunnels) - {
        failure.action.tunnel for failure in result.failures if failure.action.tunnel is not None
    }


async def test_unreadable_credentials_leave_charon_as_it_is(world: World) -> None:
    """Live connections stay loaded; the condition names the file."""
    await world.passes(2)
    before = world.charon.render()
    (world.config.parent / "gw-a.key").unlink()
    result = await world.passes()
    assert world.charon.render() == before
    messages = {condition.code.value: condition.message for condition in result.conditions}
    assert "gw-a.key: cannot be read" in messages["credentials-unreadable"]


async def test_an_edit_by_the_api_changes_file_and_gateway(world: World) -> None:
    """The count is raised in the file; the answer carries the block for the other side; again it says unchanged."""
    await world.passes()
    request = asyncio.to_thread(world.client.request, "PUT", "/v1/peers/gw-b/tunnels", {"at_least": 6})
    answer = await request
    assert answer["changed"] is True
    assert "tunnels: {count: 6" in answer["peer_block"]
    assert "count: 6" in world.config.read_text()
    assert "# the other site" in world.config.read_text()
    result = await world.passes(2)
    assert len(result.tunnels) == 6
    again = await asyncio.to_thread(world.client.request, "PUT", "/v1/peers/gw-b/tunnels", {"at_least": 6})
    assert again["changed"] is False


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 17}, 1),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": "4"}, 64),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": True}, 64),
        ("PUT", "/v1/peers/nobody/tunnels", {"count": 1}, 64),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 1, "accept_risks": "most-tunnels"}, 64),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 1, "accept_risks": ["force"]}, 64),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 1, "accept_risks": [["most-tunnels"]]}, 64),
        ("POST", "/v1/peers", {"block": "rubbish"}, 1),
        ("POST", "/v1/peers", {"block": 3}, 64),
        ("DELETE", "/v1/peers/nobody", None, 64),
        ("GET", "/v1/status?after=x", None, 64),
        ("GET", "/v1/nothing", None, 1),
        ("PATCH", "/v1/status", None, 1),
    ],
)
async def test_a_wrong_request_is_refused_and_changes_nothing(
    world: World, method: str, target: str, body: dict[str, object] | None, code: int
) -> None:
    """Every refusal has a text and an exit code; the file is the same to the byte."""
    await world.passes()
    before = world.config.read_bytes()
    with pytest.raises(RefusedError) as caught:
        await asyncio.to_thread(world.client.request, method, target, body)
    assert caught.value.exit_code == code
    assert str(caught.value)
    assert world.config.read_bytes() == before


async def test_a_peer_of_an_included_file_is_changed_there(world: World) -> None:
    """Add and remove find the file; the view of what is in force follows at once."""
    await world.passes()
    folder = world.config.parent / "conf.d"
    folder.mkdir(mode=0o755)
    included = folder / "gw-c.yaml"
    included.write_text(
        "peers:  # of the third site\n"
        "  - {name: gw-c, site: dc-c, identity: gw-c.dc.example, asn: 65030, inner: [10.255.3.0/27],\n"
        "     uplinks: [{name: isp1, addresses: [203.0.114.1]}], tunnels: {count: 0}}\n"
    )
    included.chmod(0o644)
    world.config.write_text("include: conf.d/*.yaml\n" + world.config.read_text())
    main = world.config.read_bytes()
    await asyncio.to_thread(world.client.request, "POST", "/v1/reload", {})
    answer = await asyncio.to_thread(world.client.request, "PUT", "/v1/peers/gw-c/tunnels", {"at_least": 1})
    assert answer["tunnels"] == ["gw-c/0"]
    assert "tunnels: {count: 1}" in included.read_text()
    assert "# of the third site" in included.read_text()
    view = await asyncio.to_thread(world.client.get, "/v1/config")
    assert view["sources"] == [str(world.config), str(included)]
    assert view["effective"]["peers"][1]["tunnels"]["count"] == 1
    assert view["effective"]["peers"][1]["tunnels"]["rekey_time"] == "4h"
    body = {"accept_risks": ["most-tunnels"]}
    await asyncio.to_thread(world.client.request, "DELETE", "/v1/peers/gw-c", body)
    assert "gw-c" not in included.read_text()
    assert world.config.read_bytes() == main


async def test_the_configuration_in_force_is_shown_not_the_file(world: World) -> None:
    """A file that was broken by hand changes nothing of it."""
    await world.passes()
    before = await asyncio.to_thread(world.client.get, "/v1/config")
    assert before["format_version"] == 1
    assert before["written_text"] == world.config.read_text()
    world.config.write_text("rubbish")
    with pytest.raises(RefusedError):
        await asyncio.to_thread(world.client.request, "POST", "/v1/reload", {})
    assert await asyncio.to_thread(world.client.get, "/v1/config") == before


async def test_the_status_view_is_json_with_a_version(world: World) -> None:
    """What the command line shows is what any program can read."""
    await world.passes()
    view = await asyncio.to_thread(world.client.get, "/v1/status")
    assert json.loads(json.dumps(view)) == view
    assert view["format_version"] == 1
    assert [tunnel["tunnel"] for tunnel in view["tunnels"]] == [f"gw-b/{index}" for index in range(4)]


async def test_a_full_disk_costs_no_tunnel(world: World, tmp_path: Path) -> None:
    """New numbers are used before they can be kept; there is a condition meanwhile, and they are kept later."""
    await world.passes(2)
    with full(tmp_path / "state" / "ikeorch.db"):
        await asyncio.to_thread(world.client.request, "PUT", "/v1/peers/gw-b/tunnels", {"at_least": 6})
        result = await world.passes(2)
        codes = {condition.code.value: condition.message for condition in result.conditions}
        assert "ikeorch.db: cannot be written" in codes["store-failed"]
        assert len([key for key in world.kernel.objects if key[0] == "interface"]) == 6
    if_ids = {str(status.plan.tunnel): status.plan.if_id for status in result.tunnels}
    result = await world.passes()
    assert "store-failed" not in {condition.code.value for condition in result.conditions}
    with closing(Store.open(tmp_path / "state" / "ikeorch.db")) as again:
        kept = {name: number for (kind, name), number in again.numbers().items() if kind is Kind.IF_ID}
    assert if_ids == kept


@contextmanager
def full(database: Path) -> Iterator[None]:
    """Nobody else can write to the database, as on a full disk: SQLite refuses in the same way."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def test_a_reload_and_an_edit_keep_their_order(world: World) -> None:
    """However they overlap, what is in force in the end is what the file says."""
    await world.passes()
    requests = [
        asyncio.to_thread(world.client.request, "PUT", "/v1/peers/gw-b/tunnels", {"count": count}) for count in (2, 6)
    ]
    reloads = [asyncio.to_thread(world.client.request, "POST", "/v1/reload", {}) for _ in range(2)]
    await asyncio.gather(*(each for pair in zip(requests, reloads, strict=True) for each in pair))
    assert read_config(world.config).spec == world.reconciler.spec


async def test_tunnels_that_charon_does_not_know_are_named(world: World) -> None:
    """The responder's charon was killed: the kernel forwards, charon knows nothing and does not initiate."""
    spec = world.reconciler.spec
    peer = replace(spec.peers[0], initiate=Initiate.PEER)
    world.reconciler.set_spec(replace(spec, peers=(peer,)), "test")
    await world.passes(2)
    for index in range(4):
        world.charon.establish(f"ikeorch.gw-b.{index}")
    world.prober.answering = True
    result = await world.passes(2)
    assert result.conditions == ()
    world.charon.sas.clear()
    result = await world.passes()
    assert result.conditions == ()
    await asyncio.sleep(CONFIRM_GONE)
    result = await world.passes()
    assert [condition.code.value for condition in result.conditions] == ["tunnel-orphaned"] * 4
    assert [status.state.value for status in result.tunnels] == ["carrying"] * 4


async def test_a_tunnel_that_goes_down_leaves_its_groups_beside_a_pass_that_hangs(world: World) -> None:
    """charon answers nothing, so the pass waits; the group is changed all the same, and stays changed afterwards."""
    await up(world)
    running = asyncio.create_task(world.reconciler.run())
    await until(lambda: world.reconciler.last is not None and world.reconciler.last.number > 5)
    world.charon.disturb_next("list-sas", Disturbance.SILENCE)
    world.reconciler.wake("test")
    await asyncio.sleep(0.1)
    began = time.monotonic()
    world.prober.down = {1}
    world.reconciler.health_changed()
    await until(lambda: members(world) == [3, 3])
    assert set(world.fabric.told().values()) == {FULL * 3 / 4}
    assert time.monotonic() - began < 1, "it waited for charon"
    assert world.reconciler.last is not None
    number = world.reconciler.last.number
    await until(lambda: world.reconciler.last is not None and world.reconciler.last.number > number + 1)
    assert members(world) == [3, 3]
    running.cancel()


async def test_a_pass_waits_for_the_failures_that_come_with_the_first(world: World) -> None:
    """Tunnels of one provider are judged one after the other: no pass begins until the last repair is a moment ago."""
    await up(world)
    running = asyncio.create_task(world.reconciler.run())
    await until(lambda: world.reconciler.last is not None and world.reconciler.last.number > 5)
    assert world.reconciler.last is not None
    await asyncio.sleep(0.3)
    number = world.reconciler.last.number
    world.prober.down = {1}
    world.reconciler.health_changed()
    await until(lambda: world.reconciler.last is not None and world.reconciler.last.number > number)
    assert members(world) == [3, 3]
    assert time.monotonic() - world.reconciler._pace._repaired >= REPAIR_SETTLE
    running.cancel()


async def test_a_pass_that_began_before_a_failure_does_not_undo_the_failover(world: World) -> None:
    """The pass computed four members; between its look and its writing one went down."""
    await up(world)
    await world.kernel.ensure(replace_members(world, 1))
    original = world.kernel.ensure
    held = asyncio.Event()

    async def slow(obj: KernelObject) -> None:
        if isinstance(obj, NextHop):
            held.set()
            await asyncio.sleep(0.2)
        await original(obj)

    await world.kernel.remove(next(entry for entry in world.kernel.objects.values() if isinstance(entry, NextHop)))
    world.kernel.ensure = slow  # type: ignore[method-assign]
    writing = asyncio.create_task(world.reconciler.run_pass(["test"]))
    await held.wait()
    world.prober.down = {2}
    world.reconciler.health_changed()
    watching = asyncio.create_task(world.reconciler._watch_health())
    await writing
    watching.cancel()
    hop = world.reconciler._numbers.allocate(world.reconciler.spec).next_hop(TunnelId("gw-b", 2), Family.IPV4)
    groups = [entry for entry in world.kernel.objects.values() if isinstance(entry, NextHopGroup)]
    assert all(member.next_hop != hop for group in groups for member in group.members)
    await world.passes()
    assert max(world.fabric.told().values()) < FULL


def replace_members(world: World, count: int) -> NextHopGroup:
    """The first group with some of its members only: a pass will want to put the others back."""
    group = next(entry for entry in world.kernel.objects.values() if isinstance(entry, NextHopGroup))
    return replace(group, members=group.members[:count])


async def test_the_last_group_stays_when_all_tunnels_are_dark(world: World) -> None:
    """One after the other, then all: the last ones stay, the others do not come back, and a condition says it."""
    await up(world)
    world.prober.down = {0, 2}
    await world.passes(2)
    assert members(world) == [2, 2]
    world.prober.down = {0, 1, 2, 3}
    result = await world.passes(2)
    assert members(world) == [2, 2]
    codes = sorted(condition.code.value for condition in result.conditions)
    assert codes == ["site-dark"] + ["tunnel-down"] * 4
    world.prober.down = set()
    result = await world.passes(2)
    assert members(world) == [4, 4]
    assert result.conditions == ()


async def test_without_the_prober_no_tunnel_moves(world: World) -> None:
    """Nothing is known, so the groups stay as they are, also the tunnel that was out."""
    await up(world)
    world.prober.down = {3}
    await world.passes(2)
    world.prober.problem = "it ended"
    result = await world.passes(2)
    assert members(world) == [3, 3]
    assert [condition.code.value for condition in result.conditions] == ["prober-unreachable"]


async def test_a_plan_says_what_it_could_not_see(world: World) -> None:
    """It gives no numbers away, and does not call a gateway settled that it cannot see."""
    await up(world)
    await world.charon.stop()
    view = await asyncio.to_thread(world.client.get, "/v1/plan")
    assert view["actions"] == []
    assert [condition["code"] for condition in view["unseen"]] == ["charon-unreachable"]


async def test_a_certificate_that_ends_soon_is_a_condition(world: World) -> None:
    """Loud and early, and nothing is torn down."""
    await up(world)
    soon = datetime.now(UTC) - timedelta(days=21)
    signer = create_ca(CaProfile(name="test CA"), new_key(), serial=new_serial(), now=soon)
    key = new_key()
    certificate = issue_gateway(
        GatewayProfile(identity="gw-a.dc.example"), key.public_key(), signer, serial=new_serial(), now=soon
    )
    save_gateway(world.config.parent, "gw-a", GatewayCredentials(certificate=certificate, key=key), signer.certificate)
    result = await world.passes(2)
    messages = {condition.code.value: condition.message for condition in result.conditions}
    assert "it ends in 9.0 days" in messages["certificate-expires"]
    assert members(world) == [4, 4]


async def test_another_charon_needs_a_restart_and_says_so(world: World) -> None:
    """The socket of a running daemon is not changed under it."""
    await world.passes()
    text = world.config.read_text()
    world.config.write_text(text.replace("prefixes:", "vici_socket: /run/other.vici\n  prefixes:", 1))
    await asyncio.to_thread(world.client.request, "POST", "/v1/reload", {})
    result = await world.passes()
    messages = {condition.code.value: condition.message for condition in result.conditions}
    assert "/run/other.vici now" in messages["restart-needed"]


FULL = 4 * 50e9 / 8 / 16


async def test_the_fabric_hears_what_the_healthy_tunnels_carry(world: World) -> None:
    """Nothing before they are proven; then their sum, less one that fails; an unchanged pass says nothing."""
    await world.passes(2)
    assert world.fabric.told() == {}
    await up(world)
    assert world.fabric.told() == {"10.2.0.0/16": FULL, "fd00:b::/48": FULL}
    count = len(world.fabric.wishes)
    await world.passes(3)
    assert len(world.fabric.wishes) == count
    world.prober.down = {1}
    await world.passes(1)
    assert world.fabric.told() == {"10.2.0.0/16": FULL * 3 / 4, "fd00:b::/48": FULL * 3 / 4}
    world.prober.down = set()
    await world.passes(1)
    assert world.fabric.told() == {"10.2.0.0/16": FULL, "fd00:b::/48": FULL}
    assert len(world.fabric.wishes) == count + 2


@pytest.mark.parametrize(
    ("choice", "told"),
    [(WhenUnreachable.KEEP, {"10.2.0.0/16": 1.0, "fd00:b::/48": 1.0}), (WhenUnreachable.WITHDRAW, {})],
)
async def test_when_all_is_dark_the_fabric_hears_what_is_configured(
    world: World, choice: WhenUnreachable, told: dict[str, float]
) -> None:
    """And everything again once it heals (D6)."""
    spec = world.reconciler.spec
    world.reconciler.set_spec(replace(spec, fabric=replace(spec.fabric, when_unreachable=choice)), "test")
    await up(world)
    world.prober.down = {0, 1, 2, 3}
    result = await world.passes(2)
    assert world.fabric.told() == told
    messages = {condition.code.value: condition.message for condition in result.conditions}
    assert ("1 byte/s" in messages["site-dark"]) == (choice is WhenUnreachable.KEEP)
    world.prober.down = set()
    await world.passes(2)
    assert set(world.fabric.told().values()) == {FULL}


async def test_an_unreadable_kernel_withdraws_nothing(world: World) -> None:
    """Also in the first pass of a daemon: what stands in the groups is not known, so the fabric is told nothing."""
    await up(world)
    before = len(world.fabric.wishes)

    async def unreadable(_: object = ()) -> KernelState:
        raise KernelError("no")

    world.kernel.snapshot = unreadable  # type: ignore[method-assign, assignment]
    await world.passes(2)
    world.fabric.wishes, kept = [], world.fabric.wishes
    await world.passes(2)
    assert world.fabric.wishes == []
    assert len(kept) == before


async def test_a_session_that_is_down_and_a_missing_exabgp_are_conditions(world: World) -> None:
    """With the reason and the remedy; the tunnels do not care."""
    await up(world)
    world.fabric.down = {"10.0.0.254": "the peer sent NOTIFICATION 2/2: bad peer AS"}
    result = await world.passes()
    found = {(each.code.value, each.subject): each for each in result.conditions}
    down = found["fabric-session-down", "10.0.0.254"]
    assert down.message == "AS65001: the peer sent NOTIFICATION 2/2: bad peer AS"
    assert "AS numbers" in down.hint
    world.fabric.problem = "the program exabgp is not installed"
    result = await world.passes()
    lasting = [each.code.value for each in result.conditions if each.absent_since is None]
    assert lasting == ["exabgp-unreachable"]
    assert members(world) == [4, 4]
