"""Networks that must not overlap.

A file may hold a hundred thousand of them, so they are sorted, and never compared pair by pair: of two networks one
covers the other, or they are apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network

from ikeorch.config.problems import Finding, Location
from ikeorch.config.sources import PLACE
from ikeorch.core.kernel_state import IPAddress, IPNetwork, collapse_networks
from ikeorch.core.spec import GatewaySpec


def overlaps(left: IPNetwork, right: IPNetwork) -> bool:
    """Whether two networks of one family share an address."""
    if isinstance(left, IPv4Network) and isinstance(right, IPv4Network):
        return left.overlaps(right)
    return isinstance(left, IPv6Network) and isinstance(right, IPv6Network) and left.overlaps(right)


def overlap_finder(networks: Iterable[IPNetwork]) -> Callable[[IPNetwork], IPNetwork | None]:
    """A function that says which of these networks overlaps another one; neighbours count as the network they make."""
    known: dict[int, list[IPNetwork]] = {4: [], 6: []}
    for network in collapse_networks(networks):
        known[network.version].append(network)
    starts = {version: [int(each.network_address) for each in entries] for version, entries in known.items()}

    def find(network: IPNetwork) -> IPNetwork | None:
        entries = known[network.version]
        at = bisect_right(starts[network.version], int(network.network_address))
        return next((each for each in entries[max(at - 1, 0) : at + 1] if overlaps(each, network)), None)

    return find


def _own_prefixes(spec: GatewaySpec) -> Iterator[tuple[IPNetwork, Location]]:
    for at, prefix in enumerate(spec.prefixes):
        yield prefix, ("gateway", "prefixes", at)


def _peer_prefixes(spec: GatewaySpec) -> Iterator[tuple[str, IPNetwork, Location]]:
    """Site, prefix and place of every peer's prefix."""
    for position, peer in enumerate(spec.peers):
        for at, prefix in enumerate(peer.prefixes):
            yield peer.site, prefix, ("peers", position, "prefixes", at)


def overlapping_sites(spec: GatewaySpec) -> Iterator[Finding]:
    """Prefixes may overlap inside a site, never between sites."""
    own = ((spec.site, prefix, location) for prefix, location in _own_prefixes(spec))
    entries: list[tuple[str, IPNetwork, Location]] = [*own, *_peer_prefixes(spec)]
    entries.sort(key=lambda entry: _network_order(entry[1]))
    covering: list[tuple[str, IPNetwork, Location]] = []
    for site, prefix, location in entries:
        covering = [entry for entry in covering if overlaps(entry[1], prefix)]
        other = next((entry for entry in covering if entry[0] != site), None)
        if other is not None:
            reason = f"{prefix} of site {site!r} overlaps {other[1]} of site {other[0]!r} at {PLACE}"
            yield Finding(location, reason, "a prefix belongs to one site", other[2])
        if (site, prefix) not in [entry[:2] for entry in covering[-1:]]:
            covering.append((site, prefix, location))


def overlapping_inner(spec: GatewaySpec) -> Iterator[Finding]:
    """An inner network belongs to one bundle, and is nobody's prefix."""
    inner: list[tuple[IPNetwork, Location]] = [
        (network, ("peers", position, "inner", at))
        for position, peer in enumerate(spec.peers)
        for at, network in enumerate(peer.inner)
    ]
    prefixes = [*_own_prefixes(spec), *((prefix, location) for _, prefix, location in _peer_prefixes(spec))]
    entries = [*inner, *prefixes]
    pairs: list[tuple[int, int]] = []
    covering: list[int] = []
    # networks nest or are apart, so what covers one stands before it, with nothing between that does not cover it too
    for at in sorted(range(len(entries)), key=lambda at: _network_order(entries[at][0])):
        while covering and not overlaps(entries[covering[-1]][0], entries[at][0]):
            covering.pop()
        if at < len(inner):
            pairs.extend((max(at, other), min(at, other)) if other < len(inner) else (at, other) for other in covering)
        else:
            pairs.extend((other, at) for other in covering if other < len(inner))
        covering.append(at)
    for at, other in sorted(pairs):
        network, location = entries[at]
        reason = f"the inner network {network} overlaps {entries[other][0]} at {PLACE}"
        yield Finding(location, reason, "inner networks belong to one bundle alone", entries[other][1])


def _network_order(network: IPNetwork) -> tuple[int, int, int]:
    """A network stands behind those that cover it."""
    return network.version, int(network.network_address), network.prefixlen


def routing_loops(spec: GatewaySpec) -> Iterator[Finding]:
    """Neither a prefix behind a tunnel nor an inner network may cover an address that the tunnel itself runs over."""
    endpoints: list[IPAddress] = [address.ip for uplink in spec.uplinks for address in uplink.addresses]
    endpoints += [gateway for uplink in spec.uplinks for gateway in uplink.gateways]
    endpoints += [address for peer in spec.peers for uplink in peer.uplinks for address in uplink.addresses]
    ordered = {version: sorted(int(each) for each in endpoints if each.version == version) for version in (4, 6)}
    inner = (
        (network, ("peers", position, "inner", at))
        for position, peer in enumerate(spec.peers)
        for at, network in enumerate(peer.inner)
    )
    for prefix, location in (*((prefix, location) for _, prefix, location in _peer_prefixes(spec)), *inner):
        known = ordered[prefix.version]
        at = bisect_left(known, int(prefix.network_address))
        if at < len(known) and known[at] <= int(prefix.broadcast_address):
            inside = type(prefix.network_address)(known[at])
            reason = f"{prefix} covers the underlay address {inside}: the tunnel would run through itself"
            yield Finding(location, reason, "write a longer prefix")
