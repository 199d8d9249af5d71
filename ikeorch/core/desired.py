"""From the operator's wish, the numbers given and the tunnels' health: everything that should exist.

The result is complete: what is not in it and carries our mark is to be removed. It never depends on what happens to
be running, except where leaving things alone is the point: a tunnel whose health is not known stays in its group if
it is there (a restart of the daemon must not move a flow), and the last members of a group stay when all look dead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from ikeorch.core.agreed import Agreed, taken_beside
from ikeorch.core.allocate import Allocations, offering_peers
from ikeorch.core.charon_state import Connection
from ikeorch.core.fabric import FabricWish, compute_fabric
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import (
    Family,
    Guard,
    GuardPeer,
    IPAddress,
    IPNetwork,
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
    collapse_networks,
    reverse_path_setting,
)
from ikeorch.core.mtu import inner_mtu
from ikeorch.core.paths import UnderlayPath, inner_addresses, tunnel_identities, underlay_paths
from ikeorch.core.spec import GatewaySpec, PeerSpec
from ikeorch.core.suites import Suite
from ikeorch.core.units import Seconds
from ikeorch.core.weight import quantise_weights

ROUTE_METRIC = 1024
FLOOR_METRIC = 4_294_967_000
"""The unreachable route under each group, below everything that a person would write by hand (D11)."""
RESPONDER_STRETCH = 1.2
"""The end that does not initiate waits 20 % longer, so that exactly one end rekeys (D10)."""
BUCKETS = 512
"""Of a resilient group: at least twice the largest weight, so that none starves."""
IDLE_TIMER = 1
DEFAULT_UNDERLAY_MTU = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialBundle:
    """What the credential files hold, without the key itself.

    Attributes:
        certificate: ours, PEM.
        ca: the trust anchor, PEM.
        key_id: hex SHA-1 of the subjectPublicKey, as charon names keys.
        ca_id: short name for this trust anchor's authority in charon.
        names: DNS names (SANs) of the certificate.
        expires: Unix seconds; of certificate or trust anchor, whichever ends first.
    """

    certificate: str
    ca: str
    key_id: str
    ca_id: str
    names: frozenset[str]
    expires: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelPlan:
    """All that is fixed about one tunnel, in one place for status, probes and charon.

    Attributes:
        tunnel: its name.
        path: underlay path.
        interface: XFRM interface.
        if_id: of interface and SAs.
        inner: (our address, peer's address), one pair a family.
        initiator: whether we initiate and rekey.
        local_id: our IKE identity.
        remote_id: the peer's.
        suite: as configured.
        mtu: of the XFRM interface.
        foreign: the peer's identities are set by hand, so its limits are not ours (D2).
    """

    tunnel: TunnelId
    path: UnderlayPath
    interface: str
    if_id: int
    inner: tuple[tuple[IPAddress, IPAddress], ...]
    initiator: bool
    local_id: str
    remote_id: str
    suite: str
    mtu: int
    foreign: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """Everything that should exist.

    Attributes:
        tunnels: by name.
        kernel: kernel objects by key.
        connections: charon's connections by name; None while the credentials cannot be read (then charon is left
            as it is).
        credentials: see `connections`.
        weights: of the tunnels in their groups; 0 for a tunnel outside.
        held: prefixes whose tunnels all look dead and whose last group is kept (D6), with their site.
        fabric: what the leafs shall be told.
    """

    tunnels: dict[TunnelId, TunnelPlan]
    kernel: dict[ObjectKey, KernelObject]
    connections: dict[str, Connection] | None
    credentials: CredentialBundle | None
    weights: dict[TunnelId, int]
    held: Mapping[IPNetwork, str]
    fabric: FabricWish


def hash_seed(gateway: str) -> int:
    """The multipath hash seed of a node: differs per node, else leaf and gateway polarise (D3). 1 to 2**32-1."""
    return int.from_bytes(hashlib.sha256(gateway.encode()).digest()[:4]) or 1


def compute_desired(
    spec: GatewaySpec,
    allocations: Allocations,
    *,
    credentials: CredentialBundle | None,
    verdicts: Mapping[TunnelId, Verdict],
    grouped: frozenset[TunnelId],
    resilient: bool,
    underlay_mtu: Mapping[str, int],
    agreed: Agreed | None = None,
) -> Desired:
    """Compute the desired state.

    Args:
        spec: the configuration.
        allocations: must hold all of `wanted_numbers(spec)`.
        credentials: None while they cannot be read.
        verdicts: health of each tunnel, missing means unknown.
        grouped: tunnels that stand in a group of the kernel now.
        resilient: whether the kernel has resilient groups.
        underlay_mtu: bytes, by device; 1500 where a device is not there.
        agreed: the suites in use; where the peer initiates they are taken beside the configured one.
    """
    tunnels = {
        plan.tunnel: plan for peer in spec.peers for plan in _plan_tunnels(spec, peer, allocations, underlay_mtu)
    }
    objects: list[KernelObject] = [
        *needed_sysctls(spec, allocations),
        _guard(spec, tunnels.values()),
        *_underlay(spec, allocations),
    ]
    for plan in tunnels.values():
        objects.append(_interface(spec, plan))
        objects.extend(_next_hops(plan, allocations))
    routed, weights, held = plan_routes(
        spec, tunnels, allocations, verdicts=verdicts, grouped=grouped, resilient=resilient
    )
    objects.extend(routed)
    connections = None
    if credentials is not None:
        connections = {
            plan.tunnel.connection: _connection(peer, plan, credentials, beside)
            for peer, beside in ((peer, taken_beside(spec, peer, agreed or {})) for peer in spec.peers)
            for plan in (tunnels[tunnel] for tunnel in peer.tunnel_ids)
        }
    return Desired(
        tunnels=tunnels,
        kernel={kernel_object.key: kernel_object for kernel_object in objects},
        connections=connections,
        credentials=credentials,
        weights=weights,
        held=held,
        fabric=compute_fabric(spec, with_spared(weights, verdicts), held),
    )


def _plan_tunnels(
    spec: GatewaySpec, peer: PeerSpec, allocations: Allocations, underlay_mtu: Mapping[str, int]
) -> Iterable[TunnelPlan]:
    for tunnel, path in zip(peer.tunnel_ids, underlay_paths(spec, peer), strict=True):
        local_id, remote_id = tunnel_identities(spec, peer, tunnel.index)
        device_mtu = underlay_mtu.get(path.interface, DEFAULT_UNDERLAY_MTU)
        yield TunnelPlan(
            tunnel=tunnel,
            path=path,
            interface=allocations.interface(tunnel),
            if_id=allocations.if_id(tunnel),
            inner=tuple((pair.local.ip, pair.remote) for pair in inner_addresses(spec, peer, tunnel.index)),
            initiator=spec.initiates(peer),
            local_id=local_id,
            remote_id=remote_id,
            suite=str(peer.tunnels.suite),
            mtu=peer.tunnels.mtu or inner_mtu(device_mtu, ipv6_underlay=path.local.version == 6),
            foreign=bool(peer.tunnels.identities),
        )


def needed_sysctls(spec: GatewaySpec, allocations: Allocations) -> Iterable[Sysctl]:
    """Every kernel setting that a configuration needs.

    Forwarding; the L4 hash for both families, with the node's own seed; loose reverse-path filtering where packets
    of one flow may leave and arrive by different devices.
    """
    yield Sysctl(name="net.ipv4.ip_forward", value="1")
    yield Sysctl(name="net.ipv6.conf.all.forwarding", value="1")
    yield Sysctl(name="net.ipv4.fib_multipath_hash_policy", value="1")
    yield Sysctl(name="net.ipv6.fib_multipath_hash_policy", value="1")
    yield Sysctl(name="net.ipv4.fib_multipath_hash_seed", value=str(hash_seed(spec.name)), required=False)
    for device in sorted({uplink.interface for uplink in spec.uplinks}):
        yield Sysctl(name=reverse_path_setting(device), value="2")
    for peer in spec.peers:
        for tunnel in peer.tunnel_ids:
            yield Sysctl(name=reverse_path_setting(allocations.interface(tunnel)), value="2")


def _guard(spec: GatewaySpec, tunnels: Iterable[TunnelPlan]) -> Guard:
    accepted = {peer.name: collapse_networks(peer.accept) for peer in spec.peers}
    return Guard(
        uplinks=tuple(sorted({uplink.interface for uplink in spec.uplinks})),
        tunnels=tuple(
            sorted(
                (GuardPeer(interface=plan.interface, sources=accepted[plan.tunnel.peer]) for plan in tunnels),
                key=lambda entry: entry.interface,
            )
        ),
        prefixes=collapse_networks(spec.prefixes),
    )


def _network_order(network: IPNetwork) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


def _underlay(spec: GatewaySpec, allocations: Allocations) -> Iterable[KernelObject]:
    for uplink in spec.uplinks:
        table = allocations.table(uplink.name)
        for address in uplink.addresses:
            yield SourceRule(source=address.ip, table=table, priority=table)
        for network in sorted({address.network for address in uplink.addresses}, key=_network_order):
            yield UnderlayRoute(table=table, destination=network, device=uplink.interface, gateway=None)
        for gateway in uplink.gateways:
            default = ip_network("0.0.0.0/0" if gateway.version == 4 else "::/0")
            yield UnderlayRoute(table=table, destination=default, device=uplink.interface, gateway=gateway)


def _interface(spec: GatewaySpec, plan: TunnelPlan) -> XfrmInterface:
    peer = spec.peer(plan.tunnel.peer)
    assert peer is not None
    addresses = (pair.local for pair in inner_addresses(spec, peer, plan.tunnel.index))
    return XfrmInterface(
        name=plan.interface,
        tunnel=plan.tunnel,
        if_id=plan.if_id,
        underlay=plan.path.interface,
        mtu=plan.mtu,
        addresses=tuple(sorted(addresses, key=lambda address: (address.version, int(address.ip)))),
    )


def _next_hops(plan: TunnelPlan, allocations: Allocations) -> Iterable[NextHop]:
    for family in Family:
        yield NextHop(id=allocations.next_hop(plan.tunnel, family), family=family, device=plan.interface)


def plan_routes(
    spec: GatewaySpec,
    tunnels: Mapping[TunnelId, TunnelPlan],
    allocations: Allocations,
    *,
    verdicts: Mapping[TunnelId, Verdict],
    grouped: frozenset[TunnelId],
    resilient: bool,
) -> tuple[list[KernelObject], dict[TunnelId, int], dict[IPNetwork, str]]:
    """Groups and routes of every offered prefix, the weights of the tunnels, and the prefixes that are held.

    Args:
        spec: see `compute_desired`, as for the rest.
        tunnels: the plans of all tunnels.
        allocations: see there.
        verdicts: see there.
        grouped: see there.
        resilient: see there.
    """
    objects: list[KernelObject] = []
    weights = dict.fromkeys(tunnels, 0)
    held: dict[IPNetwork, str] = {}
    capacities = {peer.name: peer.tunnels.capacity for peer in spec.peers}
    bundles: dict[str, list[TunnelId]] = {peer.name: [] for peer in spec.peers}
    for tunnel in tunnels:
        bundles[tunnel.peer].append(tunnel)
    groups: dict[tuple[str, tuple[str, ...], Family], NextHopGroup] = {}
    chosen: dict[tuple[str, ...], tuple[TunnelId, ...]] = {}
    for prefix_text, (site, peers) in offering_peers(spec).items():
        prefix = ip_network(prefix_text)
        objects.append(PrefixRoute(destination=prefix, metric=FLOOR_METRIC, group=None))
        if peers not in chosen:
            candidates = [tunnel for peer in peers for tunnel in bundles[peer]]
            chosen[peers] = choose_members(candidates, verdicts, grouped)
        members = chosen[peers]
        if not members:
            continue
        if all(verdicts.get(tunnel) is Verdict.DOWN for tunnel in members):
            held[prefix] = site
        family = Family(prefix.version)
        group = groups.get((site, peers, family))
        if group is None:
            shares = quantise_weights({tunnel: capacities[tunnel.peer] for tunnel in members})
            weights.update(shares)
            group = groups[site, peers, family] = NextHopGroup(
                id=allocations.group(site, peers, family),
                members=tuple(
                    sorted(
                        (
                            Member(next_hop=allocations.next_hop(tunnel, family), weight=weight)
                            for tunnel, weight in shares.items()
                        ),
                        key=lambda member: member.next_hop,
                    )
                ),
                buckets=BUCKETS if resilient else 0,
                idle_timer=IDLE_TIMER if resilient else 0,
            )
            objects.append(group)
        objects.append(PrefixRoute(destination=prefix, metric=ROUTE_METRIC, group=group.id))
    return objects, weights, held


def with_spared(weights: Mapping[TunnelId, int], verdicts: Mapping[TunnelId, Verdict]) -> dict[TunnelId, int]:
    """The weights as the fabric counts them: a tunnel that is spared for a moment has not lost its capacity.

    Nor has one that was until now, and is about to return.
    """
    counted = {Verdict.SPARED, Verdict.UP}
    return {tunnel: weight or int(verdicts.get(tunnel) in counted) for tunnel, weight in weights.items()}


def choose_members(
    candidates: Iterable[TunnelId], verdicts: Mapping[TunnelId, Verdict], grouped: frozenset[TunnelId]
) -> tuple[TunnelId, ...]:
    """The tunnels that a group should have: the proven ones, and those not yet judged that stand in it.

    Those that are spared only where there are no others; where there are none of these either, those that are
    recovering: to wait makes no sense when nothing else carries. Where none is recovering the last ones stay.

    Returns:
        Sorted; empty only when none was ever proven and none stands in the group.
    """
    candidates = sorted(candidates)
    members = []
    for tunnel in candidates:
        verdict = verdicts.get(tunnel, Verdict.UNKNOWN)
        if verdict is Verdict.UP or (verdict is Verdict.UNKNOWN and tunnel in grouped):
            members.append(tunnel)
    spared = tuple(tunnel for tunnel in candidates if verdicts.get(tunnel) is Verdict.SPARED)
    recovering = tuple(tunnel for tunnel in candidates if verdicts.get(tunnel) is Verdict.RECOVERING)
    return tuple(members) or spared or recovering or tuple(tunnel for tunnel in candidates if tunnel in grouped)


def _connection(peer: PeerSpec, plan: TunnelPlan, credentials: CredentialBundle, beside: Iterable[Suite]) -> Connection:
    stretch = 1.0 if plan.initiator else RESPONDER_STRETCH
    suites = (peer.tunnels.suite, *beside)
    rekey_time = Seconds(peer.tunnels.rekey_time * stretch)
    return Connection(
        tunnel=plan.tunnel,
        local_address=plan.path.local,
        remote_address=plan.path.remote,
        local_id=plan.local_id,
        remote_id=plan.remote_id,
        certificate=credentials.certificate,
        ca=credentials.ca,
        ike_proposals=tuple(suite.ike_proposal for suite in suites),
        esp_proposals=tuple(suite.esp_proposal for suite in suites),
        if_id=plan.if_id,
        rekey_time=rekey_time,
        child_rekey_time=rekey_time,
        dpd_delay=peer.tunnels.dpd_delay,
        replay_window=peer.tunnels.replay_window,
        mobike=peer.tunnels.mobike,
    )
