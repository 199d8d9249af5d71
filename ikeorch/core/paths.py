"""Which underlay path and which inner addresses each tunnel of a bundle has.

Both ends compute this independently from their own files and must agree, so nothing depends on the order in which a
file lists things: uplinks are taken by name, addresses by value, and the gateway with the lower name comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from itertools import islice

from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress, IPInterface, IPNetwork
from ikeorch.core.spec import GatewaySpec, PeerSpec, UplinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderlayPath:
    """Where a tunnel's encrypted packets run.

    Attributes:
        uplink: name of the uplink, the same on both ends.
        interface: our device.
        local: our address.
        remote: the peer's address, of the same family.
    """

    uplink: str
    interface: str
    local: IPAddress
    remote: IPAddress

    def __str__(self) -> str:
        """As `status` shows it."""
        return f"{self.uplink} {self.local} > {self.remote}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerAddresses:
    """A tunnel's two ends inside, one /31 or /127."""

    local: IPInterface
    remote: IPAddress


def underlay_paths(spec: GatewaySpec, peer: PeerSpec) -> tuple[UnderlayPath, ...]:
    """The path of each tunnel, by index: tunnel i takes uplink i mod n, then that uplink's address pairs in turn.

    Returns:
        As many paths as the bundle has tunnels; empty when no uplink of ours pairs with one of the peer's.
    """
    theirs = {uplink.name: uplink.addresses for uplink in peer.uplinks}
    choices: list[list[UnderlayPath]] = []
    for uplink in sorted(spec.uplinks, key=lambda uplink: uplink.name):
        every = _address_pairs(uplink, theirs.get(uplink.name, ()), we_are_lower=spec.name < peer.name)
        # no uplink has more turns than there are tunnels; 64 addresses at each end would make 4,096 pairs
        if pairs := list(islice(every, peer.tunnels.count)):
            choices.append(pairs)
    if not choices:
        return ()
    paths = []
    for index in range(peer.tunnels.count):
        turn, position = divmod(index, len(choices))
        pairs = choices[position]
        paths.append(pairs[turn % len(pairs)])
    return tuple(paths)


def _address_pairs(uplink: UplinkSpec, theirs: tuple[IPAddress, ...], *, we_are_lower: bool) -> Iterator[UnderlayPath]:
    """All pairs of one uplink, IPv4 before IPv6, so that any few of them in a row share as few addresses as possible.

    Both ends' addresses are taken in turn; after one round (the least common multiple of their numbers) every pair of
    it has been used, and the higher name's move on by one.
    """
    for version in (4, 6):
        ours = sorted(address.ip for address in uplink.addresses if address.version == version)
        others = sorted(address for address in theirs if address.version == version)
        lower, higher = (ours, others) if we_are_lower else (others, ours)
        if not lower or not higher:
            continue
        round_length = math.lcm(len(lower), len(higher))
        for turn in range(len(lower) * len(higher)):
            low = lower[turn % len(lower)]
            high = higher[(turn + turn // round_length) % len(higher)]
            local, remote = (low, high) if we_are_lower else (high, low)
            yield UnderlayPath(uplink=uplink.name, interface=uplink.interface, local=local, remote=remote)


def inner_capacity(network: IPNetwork) -> int:
    """How many /31 (/127) networks an inner network holds."""
    return int(network.num_addresses // 2)


def inner_addresses(spec: GatewaySpec, peer: PeerSpec, index: int) -> tuple[InnerAddresses, ...]:
    """Tunnel i has the i-th /31 (/127) of each inner network; the lower name takes the even address.

    Returns:
        One entry an inner network, in the file's order.

    Raises:
        IndexError: the network is too small (config/ refuses that before).
    """
    found = []
    for network in peer.inner:
        if index >= inner_capacity(network):
            raise IndexError(f"{network} has no room for tunnel {index}")
        even = int(network.network_address) + 2 * index
        ours, theirs = (even, even + 1) if spec.name < peer.name else (even + 1, even)
        factory = type(network.network_address)
        local = ip_interface(f"{factory(ours)}/{network.max_prefixlen - 1}")
        found.append(InnerAddresses(local=local, remote=ip_address(str(factory(theirs)))))
    return tuple(found)


def tunnel_identities(spec: GatewaySpec, peer: PeerSpec, index: int) -> tuple[str, str]:
    """Our and the peer's IKE identity of a tunnel: ``t<i>.<identity>``, or as configured for a foreign peer (D1)."""
    if peer.tunnels.identities:
        return peer.tunnels.identities[index]
    return f"t{index}.{spec.identity}", f"t{index}.{peer.identity}"


def all_tunnels(spec: GatewaySpec) -> tuple[TunnelId, ...]:
    """Every configured tunnel, peer by peer."""
    return tuple(tunnel for peer in spec.peers for tunnel in peer.tunnel_ids)
