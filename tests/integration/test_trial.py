"""A change is kept only if packets prove it: waves, proof, and the way back without anybody's help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import pytest

from ikeorch.cli.client import RefusedError
from ikeorch.config.loader import LoadedConfig, read_config
from ikeorch.core import renew, waves
from ikeorch.core.conditions import Code
from ikeorch.core.kernel_state import XfrmInterface
from ikeorch.core.units import Seconds
from ikeorch.daemon import history, management
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.daemon.history import History
from ikeorch.daemon.trial import judge_trial
from ikeorch.errors import ConfigError
from tests.integration.test_history import ask, change, outcomes, tunnels
from tests.integration.world import World, members, until, up


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer is given half a second to leave a tunnel, and a second to answer."""
    for module in (renew, waves):
        monkeypatch.setattr(module, "LEAD", Seconds(0.5))
    monkeypatch.setattr(renew, "CONNECT_TIMEOUT", Seconds(1))


@asynccontextmanager
async def running(world: World, history: History | None = None) -> AsyncIterator[None]:
    """The daemon's loop, and whoever watches changes."""
    tasks = [
        asyncio.create_task(world.reconciler.run()),
        asyncio.create_task((history or world.history).run()),
        asyncio.create_task(_report(world)),
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _report(world: World) -> None:
    """The prober reports twice a second; here ten times."""
    while True:
        await asyncio.sleep(0.1)
        world.reconciler.health_changed()


def mtus(world: World) -> list[int]:
    """Of the XFRM interfaces, by index."""
    found = [each for each in world.kernel.objects.values() if isinstance(each, XfrmInterface)]
    return [each.mtu for each in sorted(found, key=lambda each: each.tunnel)]


def undone(world: World) -> str:
    """What the condition says."""
    condition = world.reconciler._outside.get(Code.CHANGE_UNDONE)
    return condition.message if condition else ""


async def test_what_packets_prove_is_kept(world: World) -> None:
    """All tunnels get the new MTU; the trial ends, and the file is as the operator left it."""
    await up(world)
    change(world, "count: 4", "count: 4, mtu: 1300")
    text = world.config.read_text()
    async with running(world):
        answer = await ask(world, "POST", "/v1/apply", {})
        assert (await ask(world, "GET", "/v1/status"))["on_trial"] == answer["revision"] == 2
        await until(lambda: mtus(world) == [1300] * 4)
        await until(lambda: world.history.on_trial() is None)
        await until(lambda: members(world) == [4, 4])
    assert (world.config.read_text(), undone(world)) == (text, "")
    assert (await outcomes(world))[-1] == (2, "apply", "in force")


async def test_a_size_that_does_not_come_through_is_undone_after_its_first_wave(world: World) -> None:
    """Two tunnels were touched, the others never; all are as before, and history and condition say why."""
    await up(world)
    before, text = mtus(world), world.config.read_text()
    world.prober.largest = before[0]
    change(world, "count: 4", "count: 4, mtu: 8000")
    changed = world.config.read_text()
    seen: set[tuple[int, ...]] = set()
    async with running(world):
        await ask(world, "POST", "/v1/apply", {})

        def back() -> bool:
            seen.add(tuple(mtus(world)))
            return bool(undone(world)) and mtus(world) == before

        await until(back)
        await until(lambda: members(world) == [4, 4])
    assert seen == {tuple(before), (8000, 8000, *before[2:])}
    assert "gw-b/0, gw-b/1: packets of 8000 bytes do not come through, smaller ones do" in undone(world)
    assert world.config.read_text() == text
    assert [entry[2] for entry in await outcomes(world)] == ["replaced", "rolled back", "in force"]
    kept = await ask(world, "GET", "/v1/history/2")
    assert kept["files"][0]["text"] == changed
    assert "8000 bytes" in kept["reason"]


async def test_what_the_peer_does_not_take_is_undone_when_the_time_is_over(world: World) -> None:
    """The successors come to nothing: the old IKE_SAs carry all the time, then the change goes."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"wait_for_peer": 4})
        await until(lambda: bool(world.reconciler.last and world.reconciler.last.refused))
        assert undone(world) == ""
        await until(lambda: bool(undone(world)))
    assert "gw-b/0, gw-b/1, gw-b/2, gw-b/3: the peer did not take the changed connection" in undone(world)
    assert float(world.reconciler.spec.peers[0].tunnels.rekey_time) == 4 * 3600
    assert members(world) == [4, 4]


async def test_with_a_time_to_wait_for_the_peer_a_proof_may_come_later(world: World) -> None:
    """Both ends' inner addresses, for one: the peer follows in time, and nothing is undone."""
    await up(world)
    world.prober.largest = mtus(world)[0]
    change(world, "count: 4", "count: 4, mtu: 8000")
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"wait_for_peer": 60})
        await until(lambda: bool(world.reconciler.last and world.reconciler.last.waves.unproven()))
        assert mtus(world)[2:] != [8000] * 2
        world.prober.largest = 8000
        await until(lambda: mtus(world) == [8000] * 4)
        await until(lambda: world.history.on_trial() is None)
    assert undone(world) == ""


async def test_a_trial_goes_on_in_the_next_daemon(world: World) -> None:
    """It is in the database, with what comes back; of two changes in a row that is what was before the first."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    await ask(world, "POST", "/v1/apply", {"wait_for_peer": 600})
    change(world, "rekey_time: 5h", "rekey_time: 6h")
    await ask(world, "POST", "/v1/apply", {"wait_for_peer": 3})
    successor = History(world.history._revisions._store, world.history._config, world.reconciler)
    assert successor.on_trial() == 3
    async with running(world, successor):
        await until(lambda: bool(undone(world)))
    assert float(world.reconciler.spec.peers[0].tunnels.rekey_time) == 4 * 3600


async def test_without_a_prober_nothing_is_proven(world: World) -> None:
    """No tunnel's size can be tried, so none is touched; the change goes when the time is over."""
    await up(world)
    before = mtus(world)
    world.prober.problem = "it ended"
    change(world, "count: 4", "count: 4, mtu: 1300")
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"wait_for_peer": 2})
        await until(lambda: bool(undone(world)))
    assert "it was not changed yet" in undone(world)
    assert mtus(world) == before


async def test_one_that_was_taken_back_meanwhile_is_not_taken_back_twice(world: World) -> None:
    """The operator is faster than the daemon that has just decided the same: what was before that stays."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    number = (await ask(world, "POST", "/v1/apply", {"wait_for_peer": 600}))["revision"]
    again = await ask(world, "POST", "/v1/apply", {})
    assert (again["changed"], again["revision"]) == (False, number)
    assert (await ask(world, "POST", "/v1/rollback", {}))["revision"] == 1
    assert not await world.history._undo(number, 1, "too late")
    assert [entry[2] for entry in await outcomes(world)] == ["replaced", "rolled back", "in force"]


async def test_a_correction_is_not_swallowed_by_the_undoing_of_what_it_corrects(world: World) -> None:
    """The daemon has just decided to go back when the next apply holds the lock: the correction stays in force."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    number = (await ask(world, "POST", "/v1/apply", {}))["revision"]
    async with world.history.changes:
        undoing = asyncio.create_task(world.history._undo(number, 1, "refused"))
        await asyncio.sleep(0.05)
        world.history.record(_read(world, "rekey_time: 5h", "rekey_time: 6h"), uid=0, what="apply")
    assert not await undoing
    assert [entry[2] for entry in await outcomes(world)] == ["replaced", "replaced", "in force"]


def _read(world: World, old: str, new: str) -> LoadedConfig:
    """The file after another edit, put in force."""
    change(world, old, new)
    loaded = read_config(world.config)
    world.history._config.enforce(loaded)
    return loaded


async def test_a_plan_is_applied_as_it_was_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced while its risks are looked at: what was looked at comes into force, nothing else."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    view = await ask(world, "GET", "/v1/plan")
    look = world.reconciler.look

    async def replaced(*arguments: Any, **options: Any) -> Any:
        text = world.config.read_text()
        world.config.write_text(text.replace("rekey_time: 5h", "rekey_time: 1h"))
        return await look(*arguments, **options)

    monkeypatch.setattr(world.reconciler, "look", replaced)
    body = {"config": view["config_digest"], "actions": view["actions_digest"], "confirm_within": 60}
    answer = await ask(world, "POST", "/v1/apply", body)
    assert float(world.reconciler.spec.peers[0].tunnels.rekey_time) == 5 * 3600
    assert await outcomes(world) == [(1, "start", "replaced"), (answer["revision"], "apply", "awaiting confirmation")]


async def test_an_unproven_revision_does_not_come_back_by_a_timer(world: World) -> None:
    """A change that packets have not proven, then one that nobody confirms: back to what was before both."""
    await up(world)
    change(world, "rekey_time: 4h", "rekey_time: 5h")
    await ask(world, "POST", "/v1/apply", {})
    change(world, "rekey_time: 5h", "rekey_time: 6h")
    await ask(world, "POST", "/v1/apply", {"confirm_within": 1})
    async with running(world):
        await until(lambda: bool(undone(world)))
    assert float(world.reconciler.spec.peers[0].tunnels.rekey_time) == 4 * 3600


async def test_a_daemon_that_forgot_its_waves_proves_nothing_that_it_sees_broken(world: World) -> None:
    """Killed when two of four had the new size: no other tunnel is touched, and the change is undone."""
    await up(world)
    before = mtus(world)
    world.prober.largest = before[0]
    change(world, "count: 4", "count: 4, mtu: 8000")
    await ask(world, "POST", "/v1/apply", {"wait_for_peer": 600})
    for _ in range(40):
        await world.passes()
        if mtus(world)[:2] == [8000, 8000]:
            break
    await world.passes(2)
    world.reconciler._waves = waves.Waves()
    world.history._losses.narrow = frozenset()
    seen = set()
    for _ in range(20):
        await world.passes()
        seen.add(tuple(mtus(world)))
    assert seen == {(8000, 8000, *before[2:])}
    assert world.history.on_trial() == 2
    trial = world.history._revisions.trial()
    assert trial is not None
    assert "8000 bytes do not come through" in judge(world, patient=False)


def judge(world: World, *, patient: bool) -> str:
    """What is said of the change now."""
    last, spec = world.reconciler.last, world.reconciler.spec
    return judge_trial(last, spec, patient=patient, left=Seconds(600)).reason


async def test_the_way_back_needs_no_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file cannot be written: the gateway goes back all the same, it is said, and done when there is room."""
    await up(world)
    before = world.config.read_text()
    change(world)
    write = ConfigFile._write

    def full(*_: object) -> None:
        raise ConfigError("cannot be written: disk is full")

    monkeypatch.setattr(ConfigFile, "_write", full)
    monkeypatch.setattr(history, "RETRY", 0.2)
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 1})
        await until(lambda: tunnels(world) == 4)
        await until(lambda: Code.HISTORY_UNWRITTEN in world.reconciler._outside)
        assert world.config.read_text() != before
        monkeypatch.setattr(ConfigFile, "_write", write)
        await until(lambda: Code.HISTORY_UNWRITTEN not in world.reconciler._outside)
    assert world.config.read_text() == before
    assert (await outcomes(world))[-1][1] == "rollback to 1"


async def test_a_change_that_takes_tunnels_away_is_not_undone_for_it(world: World) -> None:
    """Three of four are gone because the operator says so; also where somebody has to confirm it."""
    await up(world)
    change(world, "count: 4", "count: 1")
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"confirm_within": 600, "accept_risks": ["most-tunnels"]})
        await until(lambda: world.history.on_trial() is None)
    assert world.history._losses.look() is None
    assert (tunnels(world), undone(world)) == (1, "")


@pytest.mark.parametrize("way", [None, "10.255.1.0"], ids=["no route", "into a tunnel"])
async def test_a_change_that_locks_its_operator_out_is_undone(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str | None
) -> None:
    """The route to the address that the SSH session comes from is gone, or leads to the other site."""
    ways = {"now": "10.0.9.1"}
    monkeypatch.setattr(management, "local_address", lambda _: ways["now"])
    monkeypatch.setattr(management, "PATIENCE", Seconds(0.5))
    await up(world)
    change(world, "count: 4", "count: 4, mtu: 1300")
    async with running(world):
        await ask(world, "POST", "/v1/apply", {"operator": "10.0.9.7", "confirm_within": 600})
        ways["now"] = way  # type: ignore[assignment]
        await until(lambda: bool(undone(world)))
    assert "the management path to 10.0.9.7 is lost" in undone(world)
    assert "mtu: 1300" not in world.config.read_text()


def test_the_way_to_an_operator_is_what_the_kernel_says() -> None:
    """No packet is sent; what cannot be a way is none."""
    assert management.local_address(ip_address("127.0.0.1")) == "127.0.0.1"
    assert management.local_address(ip_address("255.255.255.255")) is None


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        *(("wait_for_peer", wrong, "a number of seconds") for wrong in (0, -1, True, "1h", 1e9)),
        *(("max_lost", wrong, "a share from 0 to 1") for wrong in (-1, 1.1, True, "50%")),
        *(("operator", wrong, "an IP address") for wrong in (5, "host", "10.0.0.0/8", "")),
    ],
)
async def test_terms_that_are_none_are_refused(world: World, name: str, wrong: object, message: str) -> None:
    """Nothing is changed."""
    await world.passes(1)
    change(world)
    with pytest.raises(RefusedError, match=f"{name} must be {message}"):
        await ask(world, "POST", "/v1/apply", {name: wrong})
    assert tunnels(world) == 4


@pytest.mark.parametrize(
    ("old", "new", "former"),
    [
        ("[198.51.100.1]", "[198.51.100.9]", "the peer's address 198.51.100.1"),
        ("identity: gw-b.dc.example", "identity: gw-x.dc.example", "the peer's identity t0.gw-b.dc.example"),
        ("[192.0.2.1/24]", "[192.0.2.9/24]", "our address 192.0.2.1"),
    ],
)
async def test_the_end_that_does_not_initiate_says_what_the_peer_still_uses(
    world: World, old: str, new: str, former: str
) -> None:
    """Nothing fails until the tunnel is cut, so it must be told before; no longer once the peer has moved."""
    change(world, "  - name: gw-b\n", "  - name: gw-b\n    initiate: peer\n")
    await ask(world, "POST", "/v1/apply", {})
    await up(world)
    assert world.reconciler.last is not None
    assert world.reconciler.last.conditions == ()
    change(world, old, new)
    await ask(world, "POST", "/v1/apply", {"accept_risks": ["change-identity"]})
    result = await world.passes(2)
    told = {each.subject: each.message for each in result.conditions if each.code is Code.RENEWAL_PENDING}
    assert former in told["gw-b/0"]
    world.charon.sas.clear()
    await world.passes(2)
    for index in range(4):
        world.charon.establish(f"ikeorch.gw-b.{index}")
    result = await world.passes(3)
    assert [each.code for each in result.conditions if each.code is Code.RENEWAL_PENDING] == []
