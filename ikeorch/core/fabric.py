"""What the fabric is told: the peers' prefixes, each with the capacity that leads to it (D4, D6).

A prefix is announced once tunnels have been proven for it, with the sum of their capacities. When every tunnel to a
site looks dead, measurements alone do not take it away where no other gateway could take over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from ipaddress import ip_network

from ikeorch.core.allocate import offering_peers
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress, IPNetwork
from ikeorch.core.spec import FabricSpec, GatewaySpec, WhenUnreachable
from ikeorch.core.units import BitsPerSecond, BytesPerSecond, format_rate

UNREACHABLE = BytesPerSecond(1.0)
"""Announced in place of a capacity while everything looks dead: worse than every other path, and still a path (D6)."""
BANDWIDTH_LIMIT = 2**32
"""Bytes/s; FRR keeps 32 bits of what the community carries (measured on 8.4.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRoute:
    """A prefix as the leafs learn it.

    Attributes:
        prefix: a peer's.
        bandwidth: link bandwidth on the wire: bytes/s times `fabric.bandwidth_scale`, below 2**32.
    """

    prefix: IPNetwork
    bandwidth: BytesPerSecond


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricWish:
    """All that the fabric shall be told.

    Attributes:
        fabric: to whom.
        asn: our autonomous system.
        router_id: our BGP identifier.
        routes: sorted by prefix.
    """

    fabric: FabricSpec
    asn: int
    router_id: str
    routes: tuple[FabricRoute, ...]


def compute_fabric(spec: GatewaySpec, weights: Mapping[TunnelId, int], held: Collection[IPNetwork]) -> FabricWish:
    """What the fabric shall be told.

    Args:
        spec: the configuration.
        weights: of the tunnels in their groups; 0 outside.
        held: prefixes whose tunnels all look dead.
    """
    routes = []
    carried = {peer.name: 0 for peer in spec.peers}
    capacities = {peer.name: peer.tunnels.capacity for peer in spec.peers}
    for tunnel, weight in weights.items():
        carried[tunnel.peer] += capacities[tunnel.peer] if weight else 0
    for prefix_text, (_, peers) in offering_peers(spec).items():
        prefix = ip_network(prefix_text)
        total = sum(carried[peer] for peer in peers)
        if total == 0 or (prefix in held and spec.fabric.when_unreachable is WhenUnreachable.WITHDRAW):
            continue
        bandwidth = UNREACHABLE if prefix in held else scaled(total, spec.fabric.bandwidth_scale)
        routes.append(FabricRoute(prefix=prefix, bandwidth=bandwidth))
    routes.sort(key=lambda route: (route.prefix.version, int(route.prefix.network_address), route.prefix.prefixlen))
    return FabricWish(fabric=spec.fabric, asn=spec.asn, router_id=spec.router_id, routes=tuple(routes))


def scaled(capacity: int, scale: Fraction) -> BytesPerSecond:
    """A capacity in bits/s as it goes on the wire."""
    return BytesPerSecond(float(Fraction(capacity, 8) * scale))


def describe_change(before: FabricWish | None, after: FabricWish) -> str:
    """What changes from one wish to the next, in a few words: routes first, then neighbours and what concerns all."""
    old = {route.prefix: route.bandwidth for route in before.routes} if before else {}
    new = {route.prefix: route.bandwidth for route in after.routes}
    scale = after.fabric.bandwidth_scale
    parts = [f"- {prefix}" for prefix in old if prefix not in new]
    parts += [
        f"{'~' if prefix in old else '+'} {prefix} {format_bandwidth(bandwidth, scale)}"
        for prefix, bandwidth in new.items()
        if old.get(prefix) != bandwidth
    ]
    parts += _neighbor_changes(before.fabric if before else FabricSpec(), after.fabric)
    if before is not None:
        values = (
            ("our AS", before.asn, after.asn),
            ("router id", before.router_id, after.router_id),
            ("bandwidth scale", before.fabric.bandwidth_scale, scale),
            ("gateways in site", before.fabric.gateways_in_site, after.fabric.gateways_in_site),
            ("when unreachable", before.fabric.when_unreachable.value, after.fabric.when_unreachable.value),
        )
        parts += [f"~ {name} {was} -> {becomes}" for name, was, becomes in values if was != becomes]
    return ", ".join(parts) or "nothing to tell"


def _neighbor_changes(before: FabricSpec, after: FabricSpec) -> list[str]:
    old = {neighbor.address: neighbor for neighbor in before.neighbors}
    new = {neighbor.address: neighbor for neighbor in after.neighbors}
    parts = [f"- neighbour {address}" for address in old if address not in new]
    parts += [f"+ neighbour {address} AS{each.asn}" for address, each in new.items() if address not in old]
    for address in old.keys() & new.keys():
        was, becomes = old[address], new[address]
        if was.asn != becomes.asn:
            parts.append(f"~ neighbour {address} AS{was.asn} -> AS{becomes.asn}")
        if was.transitive != becomes.transitive:
            parts.append(f"~ neighbour {address} {'transitive' if becomes.transitive else 'not transitive'}")
    return parts


def restarted_sessions(before: FabricWish, after: FabricWish) -> tuple[IPAddress, ...]:
    """Neighbours that stay and whose session begins anew: both ends say these things in their OPEN messages only."""

    def opened(wish: FabricWish) -> dict[IPAddress, tuple[object, ...]]:
        graceful = wish.fabric.gateways_in_site == 1
        return {each.address: (each.asn, wish.asn, wish.router_id, graceful) for each in wish.fabric.neighbors}

    old = opened(before)
    return tuple(address for address, said in opened(after).items() if old.get(address, said) != said)


def format_bandwidth(bandwidth: float, scale: Fraction) -> str:
    """A bandwidth of the wire as the capacity that it stands for."""
    if bandwidth == UNREACHABLE:
        return "1 byte/s"
    return format_rate(BitsPerSecond(round(bandwidth * 8 / scale)))
