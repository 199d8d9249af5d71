"""What the gateway owns in the kernel, as values.

The same types say what should be there (desired) and what is there (actual), so that their difference is plain
comparison. Each object has a `key`: two objects with one key are the same thing in two versions. Only objects that
carry our mark of ownership ever appear in an actual state: interfaces by alias, routes, rules and next hops by
protocol number, the guard by its table's name. Sysctls have no owner; the ones that we need are read by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    collapse_addresses,
)
from typing import TypeAlias

from ikeorch.core.ids import TunnelId

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPInterface: TypeAlias = IPv4Interface | IPv6Interface
IPNetwork: TypeAlias = IPv4Network | IPv6Network
ObjectKey: TypeAlias = tuple[str, ...]

MAIN_TABLE = 254


class Family(Enum):
    """Address family of a next hop or route; the value is the one of ``ip -4|-6``."""

    IPV4 = 4
    IPV6 = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class XfrmInterface:
    """An XFRM interface (``ip link add NAME type xfrm dev UNDERLAY if_id ID``), with its inner addresses.

    Attributes:
        name: at most 15 characters.
        tunnel: whose interface it is; written as alias ``ikeorch:<tunnel>``.
        if_id: 1 to 4294967293, equal to if_id_in and if_id_out of the tunnel's CHILD_SA.
        underlay: name of the uplink's device; cannot be changed later (the kernel answers EINVAL).
        mtu: bytes, at least 1280 where IPv6 is used.
        addresses: inner addresses with their /31 or /127, sorted; link-local ones are not listed.
        up: administrative state.
    """

    name: str
    tunnel: TunnelId
    if_id: int
    underlay: str
    mtu: int
    addresses: tuple[IPInterface, ...]
    up: bool = True

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("interface", self.name)

    def can_become(self, wanted: XfrmInterface) -> bool:
        """Whether it can be changed in place; if_id and underlay are fixed when it is made."""
        return (self.if_id, self.underlay) == (wanted.if_id, wanted.underlay)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """A policy rule ``from SOURCE lookup TABLE``: IKE and ESP of an uplink's address leave by that uplink.

    Attributes:
        source: one local address of the uplink.
        table: the uplink's routing table, 1 to 2**31-1, none of the kernel's own.
        priority: position among all rules, below 32766.
    """

    source: IPAddress
    table: int
    priority: int

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("rule", str(self.source), str(self.priority))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderlayRoute:
    """A route of an uplink's own table: its connected network (no gateway) or the default by its gateway.

    Attributes:
        table: the uplink's routing table.
        destination: the connected network, or 0.0.0.0/0 or ::/0.
        device: name of the uplink's device.
        gateway: the provider's router, None for the connected network.
    """

    table: int
    destination: IPNetwork
    device: str
    gateway: IPAddress | None

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("underlay-route", str(self.table), str(self.destination))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextHop:
    """A next-hop object of one tunnel and family: ``ip -4|-6 nexthop add id ID dev DEVICE``.

    Attributes:
        id: allocated, 1 to 2**32-1, never one of the host's own.
        family: IPv6 routes cannot use an IPv4 next hop.
        device: the tunnel's XFRM interface.
    """

    id: int
    family: Family
    device: str

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("nexthop", str(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A next hop in a group.

    Attributes:
        next_hop: its id.
        weight: 1 to 256, relative to the other members.
    """

    next_hop: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextHopGroup:
    """A weighted next-hop group over tunnels, of the resilient type where the kernel has it.

    Attributes:
        id: allocated from the same numbers as next hops.
        members: sorted by next-hop id; never empty (D6).
        buckets: hash buckets of a resilient group, 0 for a hash-threshold group.
        idle_timer: seconds without traffic after which a bucket may move to its new owner (resilient only).
    """

    id: int
    members: tuple[Member, ...]
    buckets: int = 0
    idle_timer: int = 0

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("group", str(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRoute:
    """A peer site's prefix in the main table: by a next-hop group, or unreachable as the floor under it.

    Attributes:
        destination: the prefix.
        metric: the group's route stands at a lower metric than the unreachable one (D11).
        group: id of the next-hop group, None for the unreachable route.
    """

    destination: IPNetwork
    metric: int
    group: int | None

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("route", str(self.destination), str(self.metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sysctl:
    """A kernel setting.

    Attributes:
        name: dotted, as sysctl(8) takes it, such as ``net.ipv4.ip_forward``; a ``/`` inside a component (an
            interface's name may hold a dot) is written as sysctl(8) does.
        value: as read from /proc, without white space at its ends.
        required: False where an older kernel lacks it and the gateway works without it; absent ones are then skipped.
    """

    name: str
    value: str
    required: bool = field(default=True, compare=False)

    @property
    def key(self) -> ObjectKey:
        """Unique among all kernel objects."""
        return ("sysctl", self.name)


def collapse_networks(networks: Iterable[IPNetwork]) -> tuple[IPNetwork, ...]:
    """The same addresses in the fewest networks, IPv4 first, sorted: the one form in which the guard holds them."""
    known = list(networks)
    version4 = collapse_addresses(network for network in known if isinstance(network, IPv4Network))
    version6 = collapse_addresses(network for network in known if isinstance(network, IPv6Network))
    return (*version4, *version6)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPeer:
    """What one tunnel's interface may deliver.

    Attributes:
        interface: the XFRM interface.
        sources: the peer's accepted source prefixes, collapsed.
    """

    interface: str
    sources: tuple[IPNetwork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The contents of the nftables guard's named sets (D11); its rules are static (templates/guard.nft).

    Attributes:
        uplinks: device names; only ESP, IKE and needed ICMP pass there, nothing is forwarded in clear.
        tunnels: the XFRM interfaces and their accepted sources, sorted by interface.
        prefixes: what this site offers, collapsed; only these are reachable from a tunnel.
        saved: whether the file for the next boot holds today's rules with these members.
    """

    uplinks: tuple[str, ...] = ()
    tunnels: tuple[GuardPeer, ...] = ()
    prefixes: tuple[IPNetwork, ...] = ()
    saved: bool = True

    @property
    def key(self) -> ObjectKey:
        """There is one guard."""
        return ("guard",)


KernelObject: TypeAlias = (
    XfrmInterface | SourceRule | UnderlayRoute | NextHop | NextHopGroup | PrefixRoute | Sysctl | Guard
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelState:
    """Everything of ours in one kernel.

    Attributes:
        objects: by key; the order of the mapping has no meaning.
        resilient: whether the kernel offers resilient next-hop groups.
        devices: MTU in bytes of every network device, ours or not, by name; a missing uplink is a condition, no error.
    """

    objects: dict[ObjectKey, KernelObject] = field(default_factory=dict)
    resilient: bool = True
    devices: Mapping[str, int] = field(default_factory=dict)


def reverse_path_setting(device: str) -> str:
    """Name of a device's reverse-path filter, as sysctl(8) writes the name of a device that has a dot in it."""
    return f"net.ipv4.conf.{device.replace('.', '/')}.rp_filter"


def without_devices(objects: Mapping[ObjectKey, KernelObject], names: Collection[str]) -> dict[ObjectKey, KernelObject]:
    """What is left when devices have gone and the kernel has taken along what hangs on them.

    Their next hops go, these leave their groups, a group without members goes, and so does a route by it; the devices'
    settings are the kernel's own again (net/ipv4/nexthop.c). The interfaces themselves stay in the result.
    """
    hops = {entry.id for entry in objects.values() if isinstance(entry, NextHop) and entry.device in names}
    gone: set[ObjectKey] = {("nexthop", str(number)) for number in hops}
    gone |= {("sysctl", reverse_path_setting(name)) for name in names}
    left = {key: entry for key, entry in objects.items() if key not in gone}
    empty: set[int] = set()
    for key, entry in list(left.items()):
        if isinstance(entry, NextHopGroup):
            members = tuple(member for member in entry.members if member.next_hop not in hops)
            left[key] = replace(entry, members=members)
            if not members:
                empty.add(entry.id)
                del left[key]
    return {key: entry for key, entry in left.items() if not (isinstance(entry, PrefixRoute) and entry.group in empty)}
