"""What only the real kernel can show: the adapter's work seen by other tools, its notifications, its packets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ikeorch.core.ids import ROUTE_PROTOCOL
from ikeorch.core.kernel_state import Family
from tests.contract.kernel_world import RealWorld, real_world
from tests.contract.netns import has_xfrm, ip, ip_json
from tests.contract.polling import eventually
from tests.contract.test_kernel_contract import EVERYTHING, V4_ROUTE, ensure, group, hop, interface

pytestmark = pytest.mark.lab


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RealWorld]:
    if not has_xfrm():
        pytest.skip("no XFRM interfaces here, or not root; `ikeorch lab run -- pytest -m lab` has them")
    with real_world(tmp_path) as real:
        yield real
        await real.close()


async def test_other_tools_see_what_we_made(world: RealWorld) -> None:
    """ip(8) agrees with the adapter's own reading."""
    await ensure(world, *EVERYTHING)
    (link,) = ip_json("link", "show", "ikx0")
    assert (link["ifalias"], link["mtu"], link["link"]) == ("ikeorch:gw-b/0", 1400, "up0")
    assert link["linkinfo"] == {"info_kind": "xfrm", "info_data": {"if_id": "0xa"}}
    assert "UP" in link["flags"]
    (addresses,) = ip_json("address", "show", "ikx0")
    inner = {(entry["local"], entry["prefixlen"]) for entry in addresses["addr_info"] if entry["scope"] == "global"}
    assert {("10.255.1.0", 31), ("fd00:1::", 127)} == inner
    assert not any("tentative" in entry for entry in addresses["addr_info"])
    rules = [rule for rule in ip_json("rule") if str(rule.get("protocol")) == str(ROUTE_PROTOCOL)]
    assert [(rule["src"], rule["table"], rule["priority"]) for rule in rules] == [("192.0.2.1", "7301", 7300)]
    legs = {entry["id"]: entry for entry in ip_json("nexthop")}
    weights = [(leg["id"], leg.get("weight", 1)) for leg in legs[group(1).id]["group"]]
    assert [(hop(0).id, 100), (hop(1).id, 50)] == weights
    routes = ip_json("route", "show", "10.2.0.0/16")
    assert [("unicast", 100, group(1).id), ("unreachable", 200, None)] == [
        (route["type"], route["metric"], route.get("nhid")) for route in routes
    ]
    assert {str(ROUTE_PROTOCOL)} == {str(route["protocol"]) for route in routes}


async def test_the_kernel_routes_by_them(world: RealWorld) -> None:
    """A packet to the peer's site leaves by a tunnel, one from the uplink's address by its uplink."""
    ip("address", "add", "192.0.2.1/24", "dev", "up0")
    await ensure(world, *EVERYTHING)
    (route,) = ip_json("route", "get", "10.2.3.4")
    assert route["dev"] in {"ikx0", "ikx1"}
    (underlay,) = ip_json("route", "get", "203.0.113.7", "from", "192.0.2.1")
    assert (underlay["dev"], underlay["gateway"]) == ("up0", "192.0.2.254")


async def test_no_probe_for_features_is_left_behind(world: RealWorld) -> None:
    """The first snapshot tries a resilient group out."""
    await world.adapter.snapshot()
    assert ip_json("nexthop") == []


async def test_a_second_pass_makes_no_new_objects(world: RealWorld) -> None:
    """The interfaces' indices, and with them their SAs' paths, stay."""
    await ensure(world, *EVERYTHING)
    before = [(link["ifindex"], link["ifname"]) for link in ip_json("link")]
    rules = ip("rule") + ip("-6", "rule")
    await ensure(world, *EVERYTHING)
    assert before == [(link["ifindex"], link["ifname"]) for link in ip_json("link")]
    assert rules == ip("rule") + ip("-6", "rule")


async def test_weights_are_replaced_without_a_gap(world: RealWorld) -> None:
    """While weights change two hundred times, the route is there at every look."""
    await ensure(world, interface(0), interface(1), hop(0), hop(1), group(1, 1), V4_ROUTE)
    stop = asyncio.Event()

    async def change() -> None:
        for weight in range(1, 200):
            await ensure(world, group(weight, 200 - weight))
            await asyncio.sleep(0)
        stop.set()

    changing = asyncio.create_task(change())
    looks = 0
    while not stop.is_set():
        output = ip("route", "get", "10.2.3.4")
        assert "ikx" in output
        looks += 1
        await asyncio.sleep(0)
    await changing
    assert looks > 10


@pytest.mark.parametrize(
    "change",
    [
        ("link", "set", "up1", "down"),
        ("link", "set", "up1", "mtu", "1400"),
        ("address", "add", "192.0.2.9/24", "dev", "up0"),
        ("-6", "address", "add", "2001:db8::9/64", "dev", "up0"),
        ("route", "add", "198.51.100.0/24", "dev", "up0"),
        ("-6", "route", "add", "2001:db8:5::/64", "dev", "up0"),
        ("rule", "add", "from", "192.0.2.77", "lookup", "main"),
        ("-6", "rule", "add", "from", "2001:db8::77", "lookup", "main"),
        ("nexthop", "add", "id", "5", "dev", "up0"),
    ],
    ids=" ".join,
)
async def test_a_change_by_somebody_else_wakes(world: RealWorld, change: tuple[str, ...]) -> None:
    """Of each kind that we depend on."""
    wakes: list[None] = []
    watching = asyncio.create_task(world._adapter.changes(lambda: wakes.append(None)))
    await asyncio.sleep(0)
    await _quiet(wakes)
    ip(*change)

    async def woken() -> bool:
        return bool(wakes)

    await eventually(woken)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_a_flood_of_changes_is_survived(world: RealWorld) -> None:
    """More than the socket holds: one wake says enough, and the next change is still heard."""
    wakes: list[None] = []
    watching = asyncio.create_task(world._adapter.changes(lambda: wakes.append(None)))
    await asyncio.sleep(0)
    batch = "\n".join(f"route add 10.{n // 250}.{n % 250}.0/24 dev up0" for n in range(5000))
    commands = world.folder / "flood"
    commands.write_text(batch, encoding="ascii")
    ip("-batch", str(commands))

    async def woken() -> bool:
        return bool(wakes)

    await eventually(woken)
    await _quiet(wakes)
    ip("link", "set", "up1", "mtu", "1300")
    await eventually(woken)
    assert not watching.done()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_the_adapter_goes_on_after_close(world: RealWorld) -> None:
    """Its socket is opened again when it is needed."""
    await world.adapter.snapshot()
    await world.close()
    await ensure(world, interface(0), hop(0, Family.IPV6))
    assert len((await world.adapter.snapshot()).objects) == 2


async def test_a_half_made_interface_is_taken_over(world: RealWorld) -> None:
    """A crash between making and marking leaves one without alias, never up, with our if_id."""
    ip("link", "add", "ikx0", "type", "xfrm", "dev", "up0", "if_id", str(interface(0).if_id))
    await ensure(world, interface(0))
    assert interface(0) == (await world.adapter.snapshot()).objects[interface(0).key]


async def test_an_interface_moves_with_its_next_hop_and_heals(world: RealWorld) -> None:
    """Another underlay means a new interface; what hung on the old one is put again."""
    base = (interface(0), hop(0), group(1), V4_ROUTE)
    await ensure(world, *base)
    moved = replace(interface(0), underlay="up1")
    await ensure(world, moved, *base[1:])
    assert {entry.key: entry for entry in (moved, *base[1:])} == (await world.adapter.snapshot()).objects


async def _quiet(wakes: list[None]) -> None:
    """Wait until what came before has been told, then forget it."""
    seen = -1
    while seen != len(wakes):
        seen = len(wakes)
        await asyncio.sleep(0.3)
    wakes.clear()
