"""From configuration to plan: complete, ordered, idempotent, and nothing is deleted on a guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network

from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import CharonState
from ikeorch.core.desired import FLOOR_METRIC, ROUTE_METRIC, Desired, compute_desired, hash_seed
from ikeorch.core.diff import diff_states
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import (
    Guard,
    KernelState,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)
from ikeorch.core.plan import EnsureObject, LoadConnection, LoadKey, RemoveObject, UnloadConnection
from ikeorch.core.spec import GatewaySpec
from tests.examples import CREDENTIALS, allocations, gateway_a

TUNNELS = tuple(TunnelId("gw-b", index) for index in range(4))
ALL_UP = dict.fromkeys(TUNNELS, Verdict.UP)


def desire(
    spec: GatewaySpec | None = None,
    verdicts: Mapping[TunnelId, Verdict] | None = None,
    grouped: frozenset[TunnelId] = frozenset(),
) -> Desired:
    """The desired state of gateway A."""
    spec = spec or gateway_a()
    return compute_desired(
        spec,
        allocations(gateway_a()),
        credentials=CREDENTIALS,
        verdicts=verdicts or {},
        grouped=grouped,
        resilient=True,
        underlay_mtu={"eth1": 1500, "eth2": 9000},
    )


def actual(desired: Desired) -> Actual:
    """A world that is exactly as desired."""
    assert desired.connections is not None
    charon = CharonState(
        version="5.9.8",
        started="1",
        connections=frozenset(desired.connections),
        loaded=desired.connections,
        authorities=frozenset({CREDENTIALS.ca_id}),
        keys=frozenset({CREDENTIALS.key_id}),
    )
    return Actual(kernel=KernelState(objects=dict(desired.kernel)), charon=charon)


EMPTY = Actual(kernel=KernelState(), charon=CharonState(version="5.9.8", started="1"))


def test_every_tunnel_has_an_interface_with_its_own_if_id() -> None:
    """Four tunnels, four if_ids, each on its uplink with the MTU that fits it."""
    links = [entry for entry in desire().kernel.values() if isinstance(entry, XfrmInterface)]
    assert [link.name for link in links] == ["ikx1", "ikx2", "ikx3", "ikx4"]
    assert len({link.if_id for link in links}) == 4
    assert [(link.underlay, link.mtu) for link in links] == [("eth1", 1446), ("eth2", 8946)] * 2


def test_each_uplink_has_a_table_and_a_source_rule() -> None:
    """IKE of the second uplink must not leave by the first (D3)."""
    kernel = desire().kernel.values()
    rules = [entry for entry in kernel if isinstance(entry, SourceRule)]
    routes = [entry for entry in kernel if isinstance(entry, UnderlayRoute)]
    assert [(str(rule.source), rule.table) for rule in rules] == [("192.0.2.1", 7301), ("203.0.113.1", 7302)]
    assert {(route.table, str(route.destination), route.device) for route in routes} == {
        (7301, "192.0.2.0/24", "eth1"),
        (7301, "0.0.0.0/0", "eth1"),
        (7302, "203.0.113.0/24", "eth2"),
        (7302, "0.0.0.0/0", "eth2"),
    }


def test_an_unproven_bundle_has_only_the_unreachable_route() -> None:
    """Make before break: a tunnel enters its group when packets proved it."""
    kernel = desire().kernel.values()
    assert not [entry for entry in kernel if isinstance(entry, NextHopGroup)]
    routes = [entry for entry in kernel if isinstance(entry, PrefixRoute)]
    assert [(str(route.destination), route.group, route.metric) for route in routes] == [
        ("10.2.0.0/16", None, FLOOR_METRIC),
        ("fd00:b::/48", None, FLOOR_METRIC),
    ]


def test_proven_tunnels_form_one_weighted_group_a_family() -> None:
    """Equal capacities have equal weights; the route stands above the floor."""
    desired = desire(verdicts=ALL_UP)
    groups = [entry for entry in desired.kernel.values() if isinstance(entry, NextHopGroup)]
    assert [[member.weight for member in group.members] for group in groups] == [[1, 1, 1, 1]] * 2
    assert {entry.metric for entry in desired.kernel.values() if isinstance(entry, PrefixRoute) and entry.group} == {
        ROUTE_METRIC
    }
    assert desired.weights == dict.fromkeys(TUNNELS, 1)


def test_a_down_tunnel_leaves_the_group() -> None:
    """Only the three others carry."""
    desired = desire(verdicts={**ALL_UP, TUNNELS[1]: Verdict.DOWN}, grouped=frozenset(TUNNELS))
    assert desired.weights == {TUNNELS[0]: 1, TUNNELS[1]: 0, TUNNELS[2]: 1, TUNNELS[3]: 1}


def test_a_restarted_daemon_moves_no_flow() -> None:
    """With no verdict yet, the tunnels that stand in the group stay in it, and nothing is to be done."""
    before = desire(verdicts=ALL_UP)
    world = actual(before)
    assert world.grouped_tunnels() == frozenset(TUNNELS)
    assert diff_states(desire(grouped=world.grouped_tunnels()), world) == ()


def test_the_last_group_stays_when_every_tunnel_looks_dead() -> None:
    """A group is never emptied on measurements alone (D6), and the site is named as held."""
    desired = desire(verdicts=dict.fromkeys(TUNNELS, Verdict.DOWN), grouped=frozenset(TUNNELS[:2]))
    assert [weight for weight in desired.weights.values() if weight] == [1, 1]
    assert set(desired.held.values()) == {"dc-b"}


def test_a_second_pass_does_nothing() -> None:
    """What was desired and is there needs no action."""
    for verdicts in ({}, ALL_UP):
        desired = desire(verdicts=verdicts)
        assert diff_states(desired, actual(desired)) == ()


def test_an_empty_world_is_built_in_order() -> None:
    """Link, then connection, then next hop, group and route; the guard stands before any link."""
    plan = diff_states(desire(verdicts=ALL_UP), EMPTY)
    kinds = [type(a.operation.target).__name__ for a in plan if isinstance(a.operation, EnsureObject)]
    order = ["Guard", "XfrmInterface", "NextHop", "NextHopGroup", "PrefixRoute"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert [action.step for action in plan] == sorted(action.step for action in plan)
    assert sum(isinstance(action.operation, LoadConnection) for action in plan) == 4
    assert sum(isinstance(action.operation, LoadKey) for action in plan) == 1


def test_a_removed_peer_is_taken_down_in_order() -> None:
    """Withdraw, group, next hop, connection, link; the guard closes last."""
    plan = diff_states(desire(replace(gateway_a(), peers=())), actual(desire(verdicts=ALL_UP)))
    kinds = [type(a.operation.target).__name__ for a in plan if isinstance(a.operation, RemoveObject)]
    order = ["PrefixRoute", "NextHopGroup", "NextHop", "XfrmInterface"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert sum(isinstance(action.operation, UnloadConnection) for action in plan) == 4
    assert isinstance(plan[-1].operation, EnsureObject)
    assert isinstance(plan[-1].operation.target, Guard)
    assert not plan[-1].operation.target.tunnels


def test_the_guard_is_widened_before_and_narrowed_after() -> None:
    """While tunnels come and go at once, no packet of either is caught by the guard."""
    spec = gateway_a()
    fewer = replace(spec, peers=(replace(spec.peers[0], tunnels=replace(spec.peers[0].tunnels, count=2)),))
    old = desire(fewer)
    new = desire(replace(fewer, prefixes=()))
    guards = [a.operation.target for a in diff_states(new, actual(old)) if isinstance(a.operation, EnsureObject)]
    assert all(isinstance(guard, Guard) for guard in guards)
    assert [len(guard.prefixes) for guard in guards if isinstance(guard, Guard)] == [0]
    wide, narrow = (
        action.operation.target
        for action in diff_states(desire(replace(spec, prefixes=())), actual(old))
        if isinstance(action.operation, EnsureObject) and isinstance(action.operation.target, Guard)
    )
    assert isinstance(wide, Guard)
    assert isinstance(narrow, Guard)
    assert (len(wide.tunnels), len(wide.prefixes)) == (4, 2)
    assert (len(narrow.tunnels), len(narrow.prefixes)) == (4, 0)


def test_unknown_is_not_absent() -> None:
    """A kernel or charon that could not be read gives no action at all."""
    desired = desire(verdicts=ALL_UP)
    assert diff_states(desired, Actual(kernel=None, charon=None)) == ()
    blind = diff_states(desired, replace(actual(desired), kernel=None))
    assert blind == ()


def test_without_credentials_charon_is_left_alone() -> None:
    """An unreadable certificate must not unload a connection."""
    desired = replace(desire(), connections=None, credentials=None)
    world = actual(desire())
    assert [a for a in diff_states(desired, world) if not isinstance(a.operation, EnsureObject | RemoveObject)] == []


def test_foreign_connections_are_never_unloaded() -> None:
    """charon may serve others too."""
    charon = CharonState(
        version="5.9.8",
        started="1",
        connections=frozenset({"office", "ikeorch.gw-b.0", "ikeorch.x y.1"}),
    )
    spec = replace(gateway_a(), peers=())
    plan = diff_states(desire(spec), Actual(kernel=None, charon=charon))
    unloaded = [a.operation.name for a in plan if isinstance(a.operation, UnloadConnection)]
    assert unloaded == ["ikeorch.gw-b.0"]


def test_the_hash_seed_differs_between_nodes() -> None:
    """Routers in a row with one seed would polarise."""
    seeds = {hash_seed(name) for name in ("gw-a", "gw-b", "leaf-a", "leaf-b")}
    assert len(seeds) == 4
    assert all(0 < seed < 2**32 for seed in seeds)


@given(st.lists(st.sampled_from(sorted(desire(verdicts=ALL_UP).kernel)), unique=True), st.booleans())
def test_any_damage_is_healed_in_one_pass(damaged: list[tuple[str, ...]], also_foreign: bool) -> None:
    """Whatever is missing is put back, whatever is surplus is removed, and nothing else is touched."""
    desired = desire(verdicts=ALL_UP)
    objects = {key: entry for key, entry in desired.kernel.items() if key not in damaged}
    stray = PrefixRoute(destination=gateway_a().prefixes[0], metric=7, group=1)
    if also_foreign:
        objects[stray.key] = stray
    plan = diff_states(desired, Actual(kernel=KernelState(objects=objects), charon=None))
    for action in plan:
        operation = action.operation
        if isinstance(operation, EnsureObject):
            objects[operation.target.key] = operation.target
        elif isinstance(operation, RemoveObject):
            objects.pop(operation.target.key)
    assert objects == desired.kernel
    assert len(plan) == len(damaged) + also_foreign


def test_required_settings_are_named() -> None:
    """Forwarding and the L4 hash for both families, with the node's seed."""
    settings = {entry.name: entry.value for entry in desire().kernel.values() if isinstance(entry, Sysctl)}
    assert settings["net.ipv4.fib_multipath_hash_policy"] == "1"
    assert settings["net.ipv6.fib_multipath_hash_policy"] == "1"
    assert settings["net.ipv4.fib_multipath_hash_seed"] == str(hash_seed("gw-a"))
    assert settings["net.ipv4.conf.ikx4.rp_filter"] == "2"


def test_another_bundle_of_a_dark_site_is_not_held() -> None:
    """gw-b looks dead, gw-c of the same site carries its own prefix: that one is announced as it is."""
    spec = gateway_a()
    gw_b = spec.peers[0]
    gw_c = replace(gw_b, name="gw-c", identity="gw-c.dc.example", prefixes=(ip_network("10.3.0.0/16"),))
    spec = replace(spec, peers=(gw_b, gw_c))
    tunnels = [tunnel for peer in spec.peers for tunnel in peer.tunnel_ids]
    verdicts = {tunnel: Verdict.DOWN if tunnel.peer == "gw-b" else Verdict.UP for tunnel in tunnels}
    desired = compute_desired(
        spec,
        allocations(spec),
        credentials=CREDENTIALS,
        verdicts=verdicts,
        grouped=frozenset(verdicts),
        resilient=True,
        underlay_mtu={},
    )
    told = {str(route.prefix): route.bandwidth for route in desired.fabric.routes}
    assert told == {"10.2.0.0/16": 1.0, "10.3.0.0/16": 25e9, "fd00:b::/48": 1.0}


def test_echoes_alone_hold_nothing() -> None:
    """Two tunnels are down, of two nothing is known that stand in the group: they carry, and the fabric hears so."""
    verdicts = {TUNNELS[0]: Verdict.DOWN, TUNNELS[2]: Verdict.DOWN}
    desired = desire(verdicts=verdicts, grouped=frozenset(TUNNELS))
    assert desired.held == {}
    assert {route.bandwidth for route in desired.fabric.routes} == {2 * 50e9 / 8}


def test_where_nothing_else_carries_what_recovers_joins_at_once() -> None:
    """The group was left with two dead tunnels; a third one answers again: it takes over without waiting."""
    verdicts = dict.fromkeys(TUNNELS, Verdict.DOWN) | {TUNNELS[0]: Verdict.RECOVERING}
    desired = desire(verdicts=verdicts, grouped=frozenset({TUNNELS[1], TUNNELS[3]}))
    assert [tunnel for tunnel, weight in desired.weights.items() if weight] == [TUNNELS[0]]
    assert desired.held == {}
    beside = desire(verdicts=verdicts | {TUNNELS[1]: Verdict.UP}, grouped=frozenset({TUNNELS[1]}))
    assert [tunnel for tunnel, weight in beside.weights.items() if weight] == [TUNNELS[1]]


def test_a_spared_tunnel_leaves_its_group_and_not_the_fabrics_count() -> None:
    """The peer is about to replace its SAs: its capacity is not lost; where no other tunnel is there it stays."""
    verdicts = dict.fromkeys(TUNNELS, Verdict.UP) | {TUNNELS[0]: Verdict.SPARED}
    desired = desire(verdicts=verdicts, grouped=frozenset(TUNNELS))
    assert [tunnel for tunnel, weight in desired.weights.items() if weight] == list(TUNNELS[1:])
    assert {route.bandwidth for route in desired.fabric.routes} == {4 * 50e9 / 8}
    alone = desire(verdicts=dict.fromkeys(TUNNELS, Verdict.SPARED), grouped=frozenset(TUNNELS))
    assert [weight for weight in alone.weights.values() if weight] == [1, 1, 1, 1]
    assert alone.held == {}
