"""One suite for the kernel, run against FakeKernel and a namespace of the lab kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path

import pytest

from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import (
    Family,
    Guard,
    GuardPeer,
    KernelObject,
    Member,
    NextHop,
    NextHopGroup,
    ObjectKey,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)
from ikeorch.errors import ForeignObjectError, KernelError, KernelFeatureError
from tests.contract.kernel_world import FakeWorld, World, real_world
from tests.contract.netns import has_xfrm

FIRST = 0x4900_0001


def interface(index: int = 0) -> XfrmInterface:
    """The interface of tunnel gw-b/INDEX."""
    return XfrmInterface(
        name=f"ikx{index}",
        tunnel=TunnelId("gw-b", index),
        if_id=10 + index,
        underlay="up0",
        mtu=1400,
        addresses=(ip_interface(f"10.255.1.{2 * index}/31"), ip_interface(f"fd00:1::{2 * index:x}/127")),
    )


def hop(index: int = 0, family: Family = Family.IPV4) -> NextHop:
    """The next hop over tunnel gw-b/INDEX."""
    return NextHop(id=FIRST + index + (100 if family is Family.IPV6 else 0), family=family, device=f"ikx{index}")


def group(*weights: int, family: Family = Family.IPV4, buckets: int = 0) -> NextHopGroup:
    """A group over the first tunnels."""
    members = tuple(Member(next_hop=hop(index, family).id, weight=weight) for index, weight in enumerate(weights))
    number = FIRST + (50 if family is Family.IPV4 else 150)
    return NextHopGroup(id=number, members=members, buckets=buckets, idle_timer=30 if buckets else 0)


V4_ROUTE = PrefixRoute(destination=ip_network("10.2.0.0/16"), metric=100, group=group(1).id)
V6_ROUTE = PrefixRoute(destination=ip_network("fd02::/32"), metric=100, group=group(1, family=Family.IPV6).id)
GUARD = Guard(
    uplinks=("up0", "up1"),
    tunnels=(
        GuardPeer(interface="ikx0", sources=(ip_network("10.2.0.0/16"), ip_network("fd02::/32"))),
        GuardPeer(interface="ikx1", sources=(ip_network("10.2.0.0/16"),)),
    ),
    prefixes=(ip_network("10.1.0.0/16"), ip_network("fd01::/32")),
)
DEFAULT4 = UnderlayRoute(
    table=7301, destination=ip_network("0.0.0.0/0"), device="up0", gateway=ip_address("192.0.2.254")
)
DEFAULT6 = UnderlayRoute(table=7302, destination=ip_network("::/0"), device="up1", gateway=ip_address("2001:db8:1::1"))
RULE4 = SourceRule(source=ip_address("192.0.2.1"), table=7301, priority=7300)
RULE6 = SourceRule(source=ip_address("2001:db8:1::2"), table=7302, priority=7300)
EVERYTHING: tuple[KernelObject, ...] = (
    GUARD,
    UnderlayRoute(table=7301, destination=ip_network("192.0.2.0/24"), device="up0", gateway=None),
    DEFAULT4,
    UnderlayRoute(table=7302, destination=ip_network("2001:db8:1::/64"), device="up1", gateway=None),
    DEFAULT6,
    RULE4,
    RULE6,
    interface(0),
    interface(1),
    hop(0),
    hop(1),
    hop(0, Family.IPV6),
    hop(1, Family.IPV6),
    group(100, 50),
    group(256, 1, family=Family.IPV6),
    replace(V4_ROUTE, metric=200, group=None),
    replace(V6_ROUTE, metric=200, group=None),
    V4_ROUTE,
    V6_ROUTE,
)
"""In the order in which they can be made."""


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A kernel with two uplinks and nothing of ours."""
    if request.param == "fake":
        yield FakeWorld()
        return
    if not has_xfrm():
        pytest.skip("no XFRM interfaces here, or not root; `ikeorch lab run -- pytest -m lab` has them")
    with real_world(tmp_path) as real:
        yield real
        await real.close()


async def ensure(world: World, *objects: KernelObject) -> None:
    for entry in objects:
        await world.adapter.ensure(entry)


async def held(world: World) -> dict[ObjectKey, KernelObject]:
    return (await world.adapter.snapshot()).objects


def keyed(*objects: KernelObject) -> dict[ObjectKey, KernelObject]:
    return {entry.key: entry for entry in objects}


async def test_an_untouched_kernel_holds_nothing_of_ours(world: World) -> None:
    """Its devices are seen all the same, with their MTU."""
    state = await world.adapter.snapshot()
    assert state.objects == {}
    assert state.devices["up0"] == 1500
    assert {"lo", "up0", "up1"} <= set(state.devices)


async def test_everything_is_read_back_as_it_was_wanted(world: World) -> None:
    """What the snapshot says equals what was asked for, to the last weight and address."""
    await ensure(world, *EVERYTHING)
    assert keyed(*EVERYTHING) == await held(world)


async def test_a_second_time_changes_nothing(world: World) -> None:
    """Every object may be put again."""
    await ensure(world, *EVERYTHING, *EVERYTHING)
    assert keyed(*EVERYTHING) == await held(world)


async def test_all_is_removed_in_reverse_and_again(world: World) -> None:
    """What is gone may be removed once more; the guard stays, since it fails closed."""
    await ensure(world, *EVERYTHING)
    for entry in [*reversed(EVERYTHING), *reversed(EVERYTHING)]:
        await world.adapter.remove(entry)
    assert keyed(GUARD) == await held(world)


@pytest.mark.parametrize(
    "changed",
    [
        replace(interface(), mtu=1380),
        replace(interface(), addresses=(ip_interface("10.255.1.6/31"),)),
        replace(interface(), tunnel=TunnelId("gw-c", 9)),
        replace(interface(), if_id=77),
        replace(interface(), underlay="up1"),
    ],
    ids=["mtu", "addresses", "tunnel", "if_id", "underlay"],
)
async def test_an_interface_takes_its_new_form(world: World, changed: XfrmInterface) -> None:
    """Whatever differs; if_id and underlay by making it anew."""
    await ensure(world, interface(), changed)
    assert keyed(changed) == await held(world)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DEFAULT4, replace(DEFAULT4, gateway=ip_address("192.0.2.253"))),
        (DEFAULT6, replace(DEFAULT6, gateway=ip_address("2001:db8:1::9"))),
        (RULE4, replace(RULE4, table=7305)),
        (RULE6, replace(RULE6, table=7305)),
        (GUARD, Guard()),
        (Guard(), GUARD),
    ],
    ids=["gateway4", "gateway6", "rule4", "rule6", "guard-emptied", "guard-filled"],
)
async def test_a_route_rule_or_guard_is_replaced_not_doubled(
    world: World, before: KernelObject, after: KernelObject
) -> None:
    """One object stands at a key, before and after."""
    await ensure(world, before, after)
    assert keyed(after) == await held(world)


async def test_weights_change_in_place_and_the_route_stays(world: World) -> None:
    """The route names the group; a leg joins, a weight moves, a leg leaves."""
    base = (interface(0), interface(1), hop(0), hop(1))
    await ensure(world, *base, group(1), V4_ROUTE)
    for changed in (group(10, 1), group(256, 255), group(1, 256), group(7)):
        await ensure(world, changed)
        assert keyed(*base, changed, V4_ROUTE) == await held(world)


async def test_a_resilient_group_is_read_back_with_its_settings(world: World) -> None:
    """Buckets and idle timer too; weights change without a new group."""
    assert (await world.adapter.snapshot()).resilient
    base = (interface(0), interface(1), hop(0), hop(1))
    await ensure(world, *base, group(3, 1, buckets=1024), V4_ROUTE, group(1, 3, buckets=1024))
    assert keyed(*base, group(1, 3, buckets=1024), V4_ROUTE) == await held(world)


async def test_a_group_cannot_change_its_type(world: World) -> None:
    """A new id is needed; the old group stays as it is."""
    base = (interface(0), hop(0), group(1))
    await ensure(world, *base)
    with pytest.raises(KernelError, match=str(group(1).id)):
        await ensure(world, group(1, buckets=1024))
    assert keyed(*base) == await held(world)


async def test_a_route_moves_to_another_group(world: World) -> None:
    """The same prefix and metric, one route."""
    other = replace(group(1), id=FIRST + 60)
    base = (interface(0), hop(0), group(1), other)
    moved = replace(V4_ROUTE, group=other.id)
    await ensure(world, *base, V4_ROUTE, moved)
    assert keyed(*base, moved) == await held(world)


async def test_the_floor_is_a_route_of_its_own(world: World) -> None:
    """Removing the group's route leaves the unreachable one, and the other way round."""
    floor = replace(V4_ROUTE, metric=200, group=None)
    base = (interface(0), hop(0), group(1))
    await ensure(world, *base, floor, V4_ROUTE)
    await world.adapter.remove(V4_ROUTE)
    assert keyed(*base, floor) == await held(world)
    await ensure(world, V4_ROUTE)
    await world.adapter.remove(floor)
    assert keyed(*base, V4_ROUTE) == await held(world)


async def test_an_interface_that_goes_takes_its_leg_along(world: World) -> None:
    """The kernel removes the next hop and its leg (B12); the others go on."""
    await ensure(world, *EVERYTHING)
    world.delete_device("ikx0")
    left = keyed(*EVERYTHING)
    for gone in (interface(0), hop(0), hop(0, Family.IPV6)):
        del left[gone.key]
    for changed in (group(100, 50), group(256, 1, family=Family.IPV6)):
        left[changed.key] = replace(changed, members=changed.members[1:])
    assert left == await held(world)
    await ensure(world, *EVERYTHING)
    assert keyed(*EVERYTHING) == await held(world)


async def test_the_last_leg_takes_group_and_route_along(world: World) -> None:
    """What is left is the floor."""
    floor = replace(V4_ROUTE, metric=200, group=None)
    await ensure(world, interface(0), hop(0), group(1), V4_ROUTE, floor)
    world.delete_device("ikx0")
    assert keyed(floor) == await held(world)


async def test_an_interface_that_goes_down_loses_its_next_hops(world: World) -> None:
    """And does not get them back by coming up (B12); putting everything again heals it."""
    base = (interface(0), hop(0), group(1), V4_ROUTE)
    await ensure(world, *base)
    world.set_down("ikx0")
    down = replace(interface(0), up=False, addresses=interface(0).addresses[:1])
    assert keyed(down) == await held(world)
    await ensure(world, interface(0))
    assert keyed(interface(0)) == await held(world)
    await ensure(world, *base)
    assert keyed(*base) == await held(world)


async def test_removing_a_next_hop_removes_its_leg(world: World) -> None:
    """So groups are shrunk first, and nothing is left behind if they are not."""
    base = (interface(0), interface(1), hop(0))
    await ensure(world, *base, hop(1), group(2, 3))
    await world.adapter.remove(hop(1))
    assert keyed(*base, group(2)) == await held(world)


async def test_a_foreign_interface_of_that_name_is_left_alone(world: World) -> None:
    """The error names it."""
    world.add_foreign_xfrm("ikx0", 5)
    with pytest.raises(ForeignObjectError, match="ikx0") as caught:
        await ensure(world, interface(0))
    assert caught.value.where == "ikx0"
    await world.adapter.remove(interface(0))
    state = await world.adapter.snapshot()
    assert state.objects == {}
    assert "ikx0" in state.devices


async def test_a_foreign_interface_with_that_if_id_is_left_alone(world: World) -> None:
    """The kernel allows one interface an if_id (B03)."""
    world.add_foreign_xfrm("office", interface(0).if_id)
    with pytest.raises(ForeignObjectError, match="if_id 10"):
        await ensure(world, interface(0))
    state = await world.adapter.snapshot()
    assert state.objects == {}
    assert "office" in state.devices


async def test_a_foreign_next_hop_is_not_overwritten(world: World) -> None:
    """A replace would; so it is looked for first."""
    await ensure(world, interface(0))
    world.add_foreign_next_hop(hop(0).id)
    with pytest.raises(ForeignObjectError, match=str(hop(0).id)):
        await ensure(world, hop(0))


@pytest.mark.parametrize(
    "route",
    [
        replace(V4_ROUTE, group=None),
        replace(V6_ROUTE, group=None),
        replace(V6_ROUTE, metric=1024, group=None),
    ],
    ids=["v4", "v6", "v6-default-metric"],
)
async def test_a_foreign_route_is_not_overwritten(world: World, route: PrefixRoute) -> None:
    """A replace would take its place, and a removal must not take it away."""
    world.add_foreign_route(str(route.destination), route.metric)
    with pytest.raises(ForeignObjectError, match=str(route.destination)):
        await ensure(world, route)
    await world.adapter.remove(route)
    assert world.has_foreign_route(str(route.destination), route.metric)
    assert await held(world) == {}


@pytest.mark.parametrize(
    "orphan",
    [
        replace(interface(0), underlay="gone0"),
        hop(0),
        group(1),
        V4_ROUTE,
        UnderlayRoute(table=7301, destination=ip_network("192.0.2.0/24"), device="gone0", gateway=None),
    ],
    ids=["interface", "nexthop", "group", "route", "underlay-route"],
)
async def test_what_lacks_its_ground_is_refused(world: World, orphan: KernelObject) -> None:
    """An error of ours, and nothing half made."""
    with pytest.raises(KernelError):
        await ensure(world, orphan)
    assert await held(world) == {}


async def test_a_next_hop_needs_an_interface_that_is_up(world: World) -> None:
    """Else the kernel refuses it."""
    down = replace(interface(0), up=False, addresses=())
    await ensure(world, down)
    with pytest.raises(KernelError):
        await ensure(world, hop(0))
    assert keyed(down) == await held(world)


async def test_a_v6_route_does_not_take_v4_next_hops(world: World) -> None:
    """Why each family has its own group."""
    await ensure(world, interface(0), hop(0), group(1))
    with pytest.raises(KernelError):
        await ensure(world, replace(V6_ROUTE, group=group(1).id))


async def test_settings_are_read_by_name(world: World) -> None:
    """White space is one blank, and what the kernel lacks is left out."""
    names = ("net.ipv4.ip_forward", "net.ipv4.ping_group_range", "net.ipv4.no_such_setting")
    state = await world.adapter.snapshot(names)
    expected = (
        Sysctl(name="net.ipv4.ip_forward", value="0"),
        Sysctl(name="net.ipv4.ping_group_range", value="1 0"),
    )
    assert keyed(*expected) == state.objects


async def test_a_setting_is_written(world: World) -> None:
    """And is then read back."""
    wanted = Sysctl(name="net.ipv4.ip_forward", value="1")
    await ensure(world, wanted, wanted)
    assert keyed(wanted) == (await world.adapter.snapshot([wanted.name])).objects


async def test_a_setting_that_the_kernel_lacks(world: World) -> None:
    """Refused when it is required, skipped when it is not."""
    missing = Sysctl(name="net.ipv4.no_such_setting", value="1")
    with pytest.raises(KernelFeatureError, match=r"net\.ipv4\.no_such_setting"):
        await ensure(world, missing)
    await ensure(world, replace(missing, required=False))
