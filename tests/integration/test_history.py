"""Changes and the way back: revisions, confirmation in time, rollback by hand and by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ikeorch.cli.client import RefusedError
from ikeorch.core.conditions import Code
from ikeorch.core.revision import Deadline, Outcome
from ikeorch.core.units import Seconds
from ikeorch.daemon import losses
from ikeorch.daemon.history import History
from ikeorch.daemon.main import Settings, _first_config
from ikeorch.errors import ConfigError
from ikeorch.store.database import StoreError
from tests.integration.world import World, until, up


async def ask(world: World, method: str, target: str, body: dict[str, Any] | None = None) -> Any:
    """A request of the command line's."""
    return await asyncio.to_thread(world.client.request, method, target, body)


def change(world: World, old: str = "count: 4", new: str = "count: 3") -> None:
    """The operator edits the file."""
    text = world.config.read_text()
    assert old in text
    world.config.write_text(text.replace(old, new, 1))


def proven(world: World) -> None:
    """Packets have proven the last change."""
    world.history._revisions.end_trial()


def tunnels(world: World) -> int:
    """How many the configuration in force has."""
    return world.reconciler.spec.peers[0].tunnels.count


async def outcomes(world: World) -> list[tuple[int, str, str]]:
    """Every revision's number, command and outcome, oldest first."""
    view = await ask(world, "GET", "/v1/history")
    return [(each["revision"], each["command"], each["outcome"]) for each in reversed(view["revisions"])]


@asynccontextmanager
async def watched(watcher: History) -> AsyncIterator[None]:
    """While the daemon watches what waits."""
    task = asyncio.create_task(watcher.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_edited_file_is_in_force_only_once_it_is_applied(world: World) -> None:
    """The plan shows it before; the history shows who did it; applied again it is unchanged."""
    await world.passes(2)
    change(world)
    view = await ask(world, "GET", "/v1/plan")
    assert view["in_force"] is False
    assert any("gw-b/3" in str(action["tunnel"]) for action in view["actions"])
    assert tunnels(world) == 4
    answer = await ask(world, "POST", "/v1/apply", {})
    assert answer["changed"] is True
    assert tunnels(world) == 3
    assert (await ask(world, "POST", "/v1/apply", {}))["changed"] is False
    assert await outcomes(world) == [(1, "start", "replaced"), (2, "apply", "in force")]
    assert (await ask(world, "GET", "/v1/history"))["revisions"][0]["uid"] == 0


async def test_changes_of_a_peer_are_named_as_commands_and_warn_of_that_peer_alone(world: World) -> None:
    """What another peer's entry warns of was said when that one was changed."""
    await world.passes(2)
    block = "{name: gw-c, site: dc-c, identity: gw-c.dc.example, asn: 65030, inner: [10.255.9.0/27], "
    block += "uplinks: [{name: isp1, addresses: [198.51.102.1]}], tunnels: {count: 0}}"
    added = await ask(world, "POST", "/v1/peers", {"block": block})
    assert added["warnings"] == []
    more = await ask(world, "PUT", "/v1/peers/gw-c/tunnels", {"at_least": 2})
    assert ["0 and 1 on isp1" in warning for warning in more["warnings"]] == [True]
    await ask(world, "DELETE", "/v1/peers/gw-c", {"accept_risks": ["most-tunnels"]})
    assert [command for _, command, _ in await outcomes(world)] == [
        "start",
        "peer add gw-c",
        "tunnel count of gw-c",
        "peer remove gw-c",
    ]


async def test_an_apply_is_waited_for_by_a_pass_that_knows_of_it(world: World) -> None:
    """A pass that is under way meanwhile still has the old configuration, and finds nothing to do."""
    await up(world)
    under_way = asyncio.create_task(world.reconciler.run_pass(["test"]))
    await asyncio.sleep(0)
    change(world)
    answer = await ask(world, "POST", "/v1/apply", {})
    old = await under_way
    assert (old.number, old.spec.peers[0].tunnels.count) == (answer["pass"], 4)
    assert (await world.passes()).spec.peers[0].tunnels.count == 3


async def test_a_plan_that_was_looked_at_is_refused_once_the_world_moved(world: World) -> None:
    """Another file, or another state of the kernel: nothing is changed, and the way on is said."""
    await up(world)
    change(world)
    view = await ask(world, "GET", "/v1/plan")
    plan = {"config": view["config_digest"], "actions": view["actions_digest"]}
    world.kernel.delete_device("ikx1")
    with pytest.raises(RefusedError, match="the world moved since the plan was made; make another"):
        await ask(world, "POST", "/v1/apply", plan)
    assert tunnels(world) == 4
    await world.passes(3)
    change(world, "count: 3", "count: 2")
    with pytest.raises(RefusedError, match="the world moved"):
        await ask(world, "POST", "/v1/apply", plan)
    view = await ask(world, "GET", "/v1/plan")
    await ask(world, "POST", "/v1/apply", {"config": view["config_digest"], "actions": view["actions_digest"]})
    assert tunnels(world) == 2


async def test_what_nobody_confirms_goes_again(world: World) -> None:
    """File and gateway are as before; the history says why; a condition announced it."""
    await up(world)
    before = world.config.read_text()
    change(world)
    async with watched(world.history):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 1.5})
        assert tunnels(world) == 3
        await until(lambda: Code.AWAITING_CONFIRMATION in world.reconciler._outside)
        await until(lambda: tunnels(world) == 4)
        await until(lambda: Code.CHANGE_UNDONE in world.reconciler._outside)
    assert world.config.read_text() == before
    assert Code.AWAITING_CONFIRMATION not in world.reconciler._outside
    assert await outcomes(world) == [
        (1, "start", "replaced"),
        (2, "apply", "rolled back"),
        (3, "rollback to 1", "in force"),
    ]


async def test_what_is_confirmed_stays(world: World) -> None:
    """Also when the time is over; confirming once more is refused."""
    await up(world)
    change(world)
    async with watched(world.history):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 1})
        assert (await ask(world, "POST", "/v1/confirm"))["revision"] == 2
        await asyncio.sleep(1.5)
        assert tunnels(world) == 3
    assert (await outcomes(world))[-1] == (2, "apply", "confirmed")
    with pytest.raises(RefusedError, match="no revision waits") as caught:
        await ask(world, "POST", "/v1/confirm")
    assert caught.value.exit_code == 64


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/apply", {}),
        ("POST", "/v1/reload", {}),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 1}),
        ("DELETE", "/v1/peers/gw-b", None),
    ],
)
async def test_nothing_else_is_changed_while_a_change_waits(
    world: World, method: str, target: str, body: dict[str, Any] | None
) -> None:
    """Else it would not be clear what comes back."""
    await up(world)
    change(world)
    await ask(world, "POST", "/v1/apply", {"confirm_within": 600})
    text = world.config.read_text()
    with pytest.raises(RefusedError, match="revision 2 waits for its confirmation; first `ikeorch confirm`"):
        await ask(world, method, target, body)
    assert (tunnels(world), world.config.read_text()) == (3, text)
    assert (await ask(world, "POST", "/v1/rollback", {}))["revision"] == 1
    assert tunnels(world) == 4


async def test_a_daemon_that_is_killed_meanwhile_goes_back_all_the_same(world: World) -> None:
    """Its successor reads the time from the database; a clock that was set by a day moves nothing."""
    await up(world)
    change(world)
    await ask(world, "POST", "/v1/apply", {"confirm_within": 1.5})
    successor = History(world.history._revisions._store, world.history._config, world.reconciler)
    waiting = successor.awaited()
    assert waiting is not None
    assert 0 < waiting[1] <= 1.5
    async with watched(successor):
        await until(lambda: tunnels(world) == 4)


def test_the_time_left_follows_the_machine_not_the_clock() -> None:
    """Within one start of the machine its own time counts, after a reboot the clock."""
    waiting = Deadline(at=Seconds(1000), boot="this", boot_at=Seconds(50))
    assert float(waiting.left(now=Seconds(90_000), boot="this", boot_now=Seconds(40))) == 10
    assert float(waiting.left(now=Seconds(900), boot="another", boot_now=Seconds(5))) == 100


async def test_a_change_that_costs_the_tunnels_goes_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four stop carrying: nobody needs to wait for the time to be over."""
    monkeypatch.setattr(losses, "PATIENCE", Seconds(0.2))
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    async with watched(world.history):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 600})
        await world.passes(2)
        world.prober.down = {0, 1, 2}
        await world.passes(2)
        await until(lambda: float(world.reconciler.spec.peers[0].tunnels.rekey_time) == 4 * 3600)
        await until(lambda: Code.CHANGE_UNDONE in world.reconciler._outside)
    reasons = [revision.reason for revision in world.history.revisions()]
    assert "3 of 4 tunnels stopped carrying: gw-b/0, gw-b/1, gw-b/2" in reasons


async def test_what_was_undone_does_not_come_back_by_a_hasty_rollback(world: World) -> None:
    """The last change goes by itself; "back" after that means before the change before it, not the one that failed."""
    await up(world)
    change(world, "count: 4", "count: 3")
    await ask(world, "POST", "/v1/apply", {})
    proven(world)
    change(world, "count: 3", "count: 2")
    async with watched(world.history):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 1.5})
        await until(lambda: tunnels(world) == 3)
        await until(lambda: Code.CHANGE_UNDONE in world.reconciler._outside)
    assert (await ask(world, "POST", "/v1/rollback", {}))["revision"] == 1
    assert tunnels(world) == 4


async def test_an_older_revision_comes_back_by_its_number(world: World) -> None:
    """As a new one; one that does not exist is refused, and changes nothing."""
    await up(world)
    for old, new in (("count: 4", "count: 3"), ("count: 3", "count: 2")):
        change(world, old, new)
        await ask(world, "POST", "/v1/apply", {})
    assert (await ask(world, "POST", "/v1/rollback", {"revision": 1}))["revision"] == 1
    assert tunnels(world) == 4
    with pytest.raises(RefusedError, match="there is no revision before this one; there are 1 to 4"):
        await ask(world, "POST", "/v1/rollback", {})
    assert (await ask(world, "POST", "/v1/rollback", {"revision": 3}))["revision"] == 3
    assert tunnels(world) == 2
    with pytest.raises(RefusedError, match="there is no revision 99; there are 1 to 5"):
        await ask(world, "POST", "/v1/rollback", {"revision": 99})
    assert tunnels(world) == 2


async def test_a_change_that_cannot_be_written_down_is_refused_only_if_it_must_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: without the way back nothing is changed; a change that stays is made, but not in the history."""
    await up(world)
    change(world)

    def full(*_: object, **__: object) -> int:
        raise StoreError("cannot be written: disk is full")

    monkeypatch.setattr(world.history._revisions, "add", full)
    with pytest.raises(RefusedError, match="disk is full"):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 60})
    assert tunnels(world) == 4
    await ask(world, "POST", "/v1/apply", {})
    assert tunnels(world) == 3


async def test_a_daemon_with_a_broken_file_starts_with_the_last_revision(world: World, tmp_path: Path) -> None:
    """A broken edit and a crash do not meet as an outage; without any revision it is an error."""
    good = world.config.read_text()
    world.config.write_text(good.replace("asn: 65020", "asn: zero"))
    settings = Settings(
        config=world.config, state=tmp_path / "state", socket=tmp_path / "s", probe_socket=tmp_path / "p"
    )
    loaded, problem = _first_config(settings)
    assert [source.text for source in loaded.sources] == [good]
    assert problem is not None
    assert (problem.code, "peers[0].asn" in problem.message) == (Code.CONFIG_INVALID, True)
    world.config.write_text(good)
    assert _first_config(settings)[1] is None
    world.config.write_text(good.replace("count: 4", "count: 3"))
    loaded, problem = _first_config(settings)
    assert [source.text for source in loaded.sources] == [good]
    assert problem is not None
    assert problem.code is Code.FILE_NOT_APPLIED
    world.history._revisions.close(1, Outcome.ROLLED_BACK, "and a crash", at=Seconds(0))
    assert [source.text for source in _first_config(settings)[0].sources] == [world.config.read_text()]
    world.history._revisions.close(1, Outcome.IN_FORCE, "", at=Seconds(0))
    world.config.write_text("rubbish")
    with pytest.raises(ConfigError):
        _first_config(Settings(config=world.config, state=tmp_path / "none", socket=tmp_path, probe_socket=tmp_path))


async def test_all_files_of_a_revision_come_back(world: World) -> None:
    """One that was included later is moved aside, one that was removed is there again."""
    await up(world)
    folder = world.config.parent / "conf.d"
    folder.mkdir(mode=0o755)
    peer = (
        "peers:\n  - {name: gw-X, site: dc-X, identity: gw-X.dc.example, asn: 65030, inner: [10.255.3.NET/27],\n"
        "     uplinks: [{name: isp1, addresses: [203.0.114.NET]}], tunnels: {count: 0}}\n"
    )
    first, second = folder / "gw-c.yaml", folder / "gw-d.yaml"
    first.write_text(peer.replace("X", "c").replace("NET", "0", 1).replace("NET", "1"))
    first.chmod(0o644)
    world.config.write_text("include: conf.d/*.yaml\n" + world.config.read_text())
    await ask(world, "POST", "/v1/apply", {})
    second.write_text(peer.replace("X", "d").replace("NET", "32", 1).replace("NET", "2"))
    second.chmod(0o644)
    text = first.read_text()
    first.unlink()
    await ask(world, "POST", "/v1/apply", {})
    assert [each.name for each in world.reconciler.spec.peers] == ["gw-b", "gw-d"]
    await ask(world, "POST", "/v1/rollback", {})
    assert [each.name for each in world.reconciler.spec.peers] == ["gw-b", "gw-c"]
    assert first.read_text() == text
    assert not second.exists()
    assert second.with_name(f".{second.name}.before-rollback").exists()
    assert (await ask(world, "POST", "/v1/apply", {}))["changed"] is False
