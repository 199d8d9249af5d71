"""The rules between values: what must be unique, must not overlap, must fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_network

from ikeorch.config.overlap import overlapping_inner, overlapping_sites, overlaps, routing_loops
from ikeorch.config.problems import Finding, Location
from ikeorch.config.sources import PLACE
from ikeorch.core.allocate import offering_peers
from ikeorch.core.fabric import BANDWIDTH_LIMIT, scaled
from ikeorch.core.ids import INTERFACE_PREFIX
from ikeorch.core.kernel_state import IPAddress, IPInterface, IPNetwork
from ikeorch.core.paths import inner_capacity, tunnel_identities, underlay_paths
from ikeorch.core.spec import GatewaySpec, PeerSpec
from ikeorch.core.units import BitsPerSecond, format_rate

_OWN_INTERFACE = re.compile(rf"{INTERFACE_PREFIX}[0-9]+")
_SPECIAL: tuple[IPNetwork, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"),
        *("::/127", "::ffff:0:0/96", "fe80::/10", "ff00::/8"),
    )
)
"""This network, loopback, link-local, multicast, reserved, and IPv4 written as IPv6 (RFC 6890)."""


def find_conflicts(spec: GatewaySpec) -> Iterator[Finding]:
    """Everything in a well-formed configuration that does not fit together; nothing when it is fine."""
    yield from _unique_names(spec)
    yield from _uplink_addresses(spec)
    for position, peer in enumerate(spec.peers):
        yield from _peer_alone(spec, position, peer)
    yield from _no_hosts(spec)
    yield from overlapping_sites(spec)
    yield from overlapping_inner(spec)
    yield from routing_loops(spec)
    yield from _same_selectors(spec)
    yield from _fabric(spec)


def _duplicates(
    entries: Iterable[tuple[Hashable, Location]], reason: Callable[[Hashable], str], hint: str
) -> Iterator[Finding]:
    """What stands a second time; `reason` names the value, and `PLACE` for where it stood first."""
    first: dict[Hashable, Location] = {}
    for value, location in entries:
        if value in first:
            yield Finding(location, reason(value), hint, first[value])
        else:
            first[value] = location


def _unique_names(spec: GatewaySpec) -> Iterator[Finding]:
    peers = [(peer.name, ("peers", position, "name")) for position, peer in enumerate(spec.peers)]
    uplinks = [(uplink.name, ("gateway", "uplinks", at, "name")) for at, uplink in enumerate(spec.uplinks)]
    for entries, kind in ((peers, "peer"), (uplinks, "uplink")):
        yield from _duplicates(
            entries,
            lambda value, kind=kind: f"the {kind} name {value!r} stands already at {PLACE}",  # type: ignore[misc]
            "names must be unique",
        )
    for position, peer in enumerate(spec.peers):
        if peer.name == spec.name:
            yield Finding(
                ("peers", position, "name"), f"{peer.name!r} is this gateway's own name", "name the remote gateway"
            )
        if peer.identity == spec.identity:
            yield Finding(("peers", position, "identity"), "that is this gateway's own identity", "write the peer's")
        if peer.site == spec.site:
            reason = f"the peer stands in our own site {spec.site!r}"
            yield Finding(("peers", position, "site"), reason, "tunnels join different sites")


def _uplink_addresses(spec: GatewaySpec) -> Iterator[Finding]:
    own: list[tuple[Hashable, Location]] = []
    for at, uplink in enumerate(spec.uplinks):
        location: Location = ("gateway", "uplinks", at)
        own.extend((local.ip, (*location, "addresses", i)) for i, local in enumerate(uplink.addresses))
        networks = [address.network for address in uplink.addresses]
        for i, local in enumerate(uplink.addresses):
            yield from _no_host_of_network(local, (*location, "addresses", i))
        if _OWN_INTERFACE.fullmatch(uplink.interface):
            reason = f"{uplink.interface!r} is the name of one of our XFRM interfaces"
            yield Finding((*location, "interface"), reason, "write the network device that leads to the provider")
        for gateway in uplink.gateways:
            if any(gateway == address.ip for address in uplink.addresses):
                yield Finding(
                    (*location, "gateway"), f"{gateway} is the uplink's own address", "write the provider's router"
                )
            elif gateway.version == 6 and gateway.is_link_local:
                continue  # the usual router of an IPv6 link
            elif not any(gateway in network for network in networks):
                reason = f"{gateway} is in none of the uplink's networks"
                yield Finding((*location, "gateway"), reason, "write the provider's router on that link")
        if len({gateway.version for gateway in uplink.gateways}) < len(uplink.gateways):
            yield Finding(
                (*location, "gateway"), "two gateways of one family", "write one IPv4 and one IPv6 gateway at most"
            )
        missing = {network.version for network in networks} - {gateway.version for gateway in uplink.gateways}
        if missing:
            family = " and ".join(f"IPv{version}" for version in sorted(missing))
            yield Finding((*location, "gateway"), f"no gateway for the uplink's {family} addresses", "add it")
    for value, where in own:
        assert isinstance(value, IPv4Address | IPv6Address)
        yield from _no_host(value, where)
    theirs: list[tuple[Hashable, Location]] = list(own)
    for at, peer in enumerate(spec.peers):
        for u, peer_uplink in enumerate(peer.uplinks):
            theirs.extend(
                (address, ("peers", at, "uplinks", u, "addresses", i))
                for i, address in enumerate(peer_uplink.addresses)
            )
            for i, address in enumerate(peer_uplink.addresses):
                yield from _no_host(address, ("peers", at, "uplinks", u, "addresses", i))
    yield from _duplicates(
        theirs,
        lambda value: f"the address {value} stands already at {PLACE}",
        "an underlay address belongs to one uplink of one gateway",
    )


def _no_host(address: IPAddress, location: Location) -> Iterator[Finding]:
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        reason = f"{address} is an IPv4 address in IPv6's form, which no host has on the wire (RFC 4291)"
        yield Finding(location, reason, f"write {address.ipv4_mapped}")
    elif address.is_multicast or address.is_loopback or address.is_unspecified or address.is_link_local:
        yield Finding(location, f"{address} is no address of a host on the underlay", "write a unicast address")


def _no_host_of_network(address: IPInterface, location: Location) -> Iterator[Finding]:
    """IPv4 keeps the first and the last address of a network for itself (RFC 3021: not those of a /31)."""
    network = address.network
    if isinstance(network, IPv4Network) and network.prefixlen < 31:
        for special, what in ((network.network_address, "the network's own"), (network.broadcast_address, "broadcast")):
            if address.ip == special:
                yield Finding(location, f"{address} is {what} address", "write the gateway's address on that link")


def _no_hosts(spec: GatewaySpec) -> Iterator[Finding]:
    """Prefixes, sources and inner networks must hold addresses that hosts may have, each once in its list."""
    lists: list[tuple[Location, tuple[IPNetwork, ...]]] = [(("gateway", "prefixes"), spec.prefixes)]
    for position, peer in enumerate(spec.peers):
        lists.append((("peers", position, "inner"), peer.inner))
        lists.append((("peers", position, "prefixes"), peer.prefixes))
        if peer.accept != peer.prefixes:
            lists.append((("peers", position, "accept"), peer.accept))
    for location, networks in lists:
        for at, network in enumerate(networks):
            if any(overlaps(network, special) and network.prefixlen >= special.prefixlen for special in _SPECIAL):
                reason = f"{network} holds no addresses that a host in another network may have"
                yield Finding((*location, at), reason, "write a prefix of unicast addresses")
        entries: list[tuple[Hashable, Location]] = [(each, (*location, at)) for at, each in enumerate(networks)]
        yield from _duplicates(entries, lambda value: f"{value} stands already at {PLACE}", "write it once")


def _peer_alone(spec: GatewaySpec, position: int, peer: PeerSpec) -> Iterator[Finding]:
    location: Location = ("peers", position)
    count = peer.tunnels.count
    if count and not underlay_paths(spec, peer):
        ours = ", ".join(uplink.name for uplink in spec.uplinks)
        reason = f"no uplink of the peer pairs with one of ours ({ours}) by name and address family"
        yield Finding((*location, "uplinks"), reason, "uplinks of the same name form the pairs")
    if len({network.version for network in peer.inner}) < len(peer.inner):
        yield Finding(
            (*location, "inner"), "two inner networks of one family", "write one IPv4 and one IPv6 network at most"
        )
    for at, network in enumerate(peer.inner):
        if inner_capacity(network) < count:
            reason = f"{network} has room for {inner_capacity(network)} tunnels, {count} are asked for"
            bits = max(count - 1, 0).bit_length() + 1
            hint = f"write a /{network.max_prefixlen - bits} or larger"
            yield Finding((*location, "inner", at), reason, hint)
    if peer.tunnels.identities and len(peer.tunnels.identities) < count:
        reason = f"{len(peer.tunnels.identities)} identity pairs for {count} tunnels"
        yield Finding((*location, "tunnels", "identities"), reason, "write one pair a tunnel, or auto")
    families = {network.version for network in peer.inner}
    for key, networks in (("prefixes", peer.prefixes), ("accept", peer.accept)):
        for at, network in enumerate(networks):
            if network.version not in families and key == "prefixes":
                reason = f"{network} needs an inner IPv{network.version} network"
                yield Finding((*location, key, at), reason, "add one to inner")


def _same_selectors(spec: GatewaySpec) -> Iterator[Finding]:
    """A responder tells tunnels apart by addresses and identities alone (D1)."""
    entries: list[tuple[Hashable, Location]] = []
    for position, peer in enumerate(spec.peers):
        paths = underlay_paths(spec, peer)
        if peer.tunnels.identities and len(peer.tunnels.identities) < len(paths):
            continue
        for index, path in enumerate(paths):
            selector = (path.local, path.remote, *tunnel_identities(spec, peer, index))
            key: Location = ("peers", position, "tunnels", "identities", index)
            entries.append((selector, key if peer.tunnels.identities else ("peers", position, "identity")))
    yield from _duplicates(
        entries,
        lambda _: f"two tunnels have one address pair and one identity pair, see {PLACE}",
        "the peer could not tell them apart; give each its own identities or addresses",
    )


def _fabric(spec: GatewaySpec) -> Iterator[Finding]:
    """Each leaf once, and a scale that keeps every link bandwidth below what FRR can hold (2**32 bytes/s)."""
    neighbors: list[tuple[Hashable, Location]] = [
        (neighbor.address, ("fabric", "neighbors", at, "address")) for at, neighbor in enumerate(spec.fabric.neighbors)
    ]
    yield from _duplicates(neighbors, lambda value: f"{value} stands already at {PLACE}", "name each leaf once")
    own = {address.ip for uplink in spec.uplinks for address in uplink.addresses}
    for at, neighbor in enumerate(spec.fabric.neighbors):
        location: Location = ("fabric", "neighbors", at, "address")
        if neighbor.address in own:
            yield Finding(location, f"{neighbor.address} is this gateway's own address", "write the leaf's")
        yield from _no_host(neighbor.address, location)
    if not spec.fabric.neighbors:
        return
    capacities = {peer.name: peer.tunnels.capacity * peer.tunnels.count for peer in spec.peers}
    totals = {sum(capacities[name] for name in peers) for _, peers in offering_peers(spec).values()}
    largest = max(totals, default=0)
    if scaled(largest, spec.fabric.bandwidth_scale) >= BANDWIDTH_LIMIT:
        fitting = -(-Fraction(largest, 8) // (BANDWIDTH_LIMIT - 1))
        reason = f"the tunnels' {format_rate(BitsPerSecond(largest))} exceed what link bandwidth holds at this scale"
        yield Finding(("fabric", "bandwidth_scale"), reason, f"write 1/{fitting} or less, the same on all gateways")
