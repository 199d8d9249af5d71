"""A peer that is renamed keeps its numbers, interfaces and routes, also over restarts and with a full disk."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ikeorch.core.allocate import Kind
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import XfrmInterface
from ikeorch.core.plan import EnsureObject, RemoveObject
from ikeorch.daemon.numbers import Numbers
from ikeorch.store.database import Store
from ikeorch.store.names import HeardNames
from tests.integration.test_history import ask, change
from tests.integration.test_loop import full
from tests.integration.world import World, members, up

NEW, OLD = "- name: gw-x", "- name: gw-b"


def aliases(world: World) -> dict[str, str]:
    """The tunnels of the XFRM interfaces, as their aliases say."""
    found = [entry for entry in world.kernel.objects.values() if isinstance(entry, XfrmInterface)]
    return {entry.name: str(entry.tunnel) for entry in found}


async def test_a_renamed_peer_keeps_everything_but_its_name(world: World) -> None:
    """Only aliases change in the kernel, nothing is made or removed; the fabric hears nothing; SAs are replaced."""
    await up(world)
    before, told = dict(world.kernel.objects), len(world.fabric.wishes)
    change(world, OLD, NEW)
    view = await ask(world, "GET", "/v1/plan")
    assert view["risks"] == []
    assert {action["impact"] for action in view["actions"]} == {"in place", "re-establishes one tunnel at a time"}
    assert aliases(world)["ikx1"] == "gw-b/0"
    await ask(world, "POST", "/v1/apply", {})
    result = await world.passes()
    kernel_actions = [
        each.operation for each in result.planned if isinstance(each.operation, EnsureObject | RemoveObject)
    ]
    assert {type(each.target) for each in kernel_actions} == {XfrmInterface}
    assert aliases(world) == {f"ikx{index + 1}": f"gw-x/{index}" for index in range(4)}
    assert world.kernel.objects.keys() == before.keys()
    assert members(world) == [4, 4]
    assert len(world.fabric.wishes) == told
    assert set(world.charon.connections) == {f"ikeorch.gw-x.{index}" for index in range(4)}
    assert result.renewing == {TunnelId("gw-x", index) for index in range(4)}
    assert {status.state.value for status in (await world.passes()).tunnels} == {"carrying"}
    assert world.charon.render().count("ike_sa ikeorch.gw-b") == 4


async def test_the_name_comes_back_with_everything(world: World) -> None:
    """A rollback is a rename too."""
    await up(world)
    before = dict(world.kernel.objects)
    change(world, OLD, NEW)
    await ask(world, "POST", "/v1/apply", {})
    await world.passes(2)
    await ask(world, "POST", "/v1/rollback", {})
    result = await world.passes(2)
    assert world.kernel.objects == before
    assert result.renewing == frozenset()


async def test_a_restart_in_between_changes_nothing(world: World, tmp_path: Path) -> None:
    """Whoever reads the database next, before or after, gives the same numbers, as often as it likes."""
    await up(world)
    spec = world.reconciler.spec
    change(world, OLD, NEW)
    await ask(world, "POST", "/v1/apply", {})
    renamed = world.reconciler.spec
    with closing(Store.open(tmp_path / "state" / "ikeorch.db")) as store:
        for _ in range(2):
            numbers = Numbers(store)
            assert numbers.preview(renamed).if_id(TunnelId("gw-x", 3)) == 4
            assert numbers.allocate(renamed).if_id(TunnelId("gw-x", 3)) == 4
        assert Numbers(store).allocate(spec).if_id(TunnelId("gw-b", 3)) == 4
        assert len(store.numbers()) == 2 + 4 * 3 + 2


def test_what_a_peer_calls_itself_survives(tmp_path: Path) -> None:
    """And a database that cannot be written is tried again."""
    with closing(Store.open(tmp_path / "x.db")) as store:
        names = HeardNames(store)
        with full(tmp_path / "x.db"):
            names.keep({"gw-b.dc.example": "gw-x"})
        assert HeardNames(store).now == {}
        names.keep({"gw-b.dc.example": "gw-x"})
        assert HeardNames(store).now == {"gw-b.dc.example": "gw-x"}
        names.keep({})
        assert HeardNames(store).now == {}


async def test_a_rename_on_a_full_disk_is_written_later(world: World, tmp_path: Path) -> None:
    """The numbers move in memory, and none is given twice."""
    await up(world)
    database = tmp_path / "state" / "ikeorch.db"
    change(world, OLD, NEW)
    with full(database):
        await ask(world, "POST", "/v1/apply", {})
        result = await world.passes()
        assert "store-failed" in {condition.code.value for condition in result.conditions}
        assert aliases(world)["ikx4"] == "gw-x/3"
    result = await world.passes()
    assert "store-failed" not in {condition.code.value for condition in result.conditions}
    with closing(Store.open(database)) as store:
        assert store.numbers()[Kind.IF_ID, "gw-x/3"] == 4
