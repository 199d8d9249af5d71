"""What a caller says: to whom, and which prefixes. Values only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from bgp.link_bandwidth import AS_TRANS, round_bandwidth

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

MAX_ASN = 0xFFFF_FFFF
HOLD_TIMES = (9, 180)
"""Seconds: below, a busy speaker loses sessions; above, a silent peer is believed for too long."""
MAX_RESTART_TIME = 4095
"""Seconds: 12 bits, RFC 4724 section 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """A router that we have a session with.

    Its address version is the session's only family.

    Attributes:
        address: the router's.
        asn: the router's, 1 to 4294967295.
        local_asn: ours.
        router_id: ours.
        local_address: ours; None lets ExaBGP's kernel choose.
        transitive: send the link bandwidth in its transitive form (type 0x00): FRR 10.3 to 10.5.1 ignores the other.
        graceful_restart: restart time in seconds, 1 to 4095; None switches graceful restart off.
        hold_time: seconds, 9 to 180.
    """

    address: IPAddress
    asn: int
    local_asn: int
    router_id: IPv4Address
    local_address: IPAddress | None = None
    transitive: bool = False
    graceful_restart: int | None = None
    hold_time: int = 90

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: one is out of its range, or does not fit the others.
        """
        for address in (self.address, self.local_address):
            if address is not None:
                _check_host(address)
        for asn in (self.asn, self.local_asn):
            if not 1 <= asn <= MAX_ASN or asn == AS_TRANS:
                raise ValueError(f"{asn} is no AS number of a speaker")
        if not isinstance(self.router_id, IPv4Address) or int(self.router_id) == 0:
            raise ValueError(f"{self.router_id} is no router id")
        if self.local_address is not None and self.local_address.version != self.address.version:
            raise ValueError(f"{self.local_address} and {self.address} are of different families")
        if self.local_address == self.address:
            raise ValueError(f"{self.address} stands at both ends")
        if self.graceful_restart is not None and not 1 <= self.graceful_restart <= MAX_RESTART_TIME:
            raise ValueError(f"a restart time of {self.graceful_restart} s is not within 1 to {MAX_RESTART_TIME}")
        if not HOLD_TIMES[0] <= self.hold_time <= HOLD_TIMES[1]:
            raise ValueError(f"a hold time of {self.hold_time} s is not within {HOLD_TIMES[0]} to {HOLD_TIMES[1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """A prefix that we offer.

    Attributes:
        prefix: what we lead to.
        link_bandwidth: bytes/s, 0 to below 2^32, already scaled.
        next_hop: of the prefix's family; None is our own address of the session.
    """

    prefix: IPNetwork
    link_bandwidth: float
    next_hop: IPAddress | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: one is out of its range, or does not fit the others.
        """
        if not isinstance(self.prefix, IPv4Network | IPv6Network):
            raise ValueError(f"{self.prefix!r} is no prefix")  # noqa: TRY004 - one kind of error for callers
        if self.prefix.is_multicast:
            raise ValueError(f"{self.prefix} is a multicast prefix")
        if self.next_hop is not None:
            _check_host(self.next_hop)
            if self.next_hop.version != self.prefix.version:
                raise ValueError(f"{self.prefix} and its next hop {self.next_hop} are of different families")
        round_bandwidth(self.link_bandwidth)


def _check_host(address: IPAddress) -> None:
    """Refuse what cannot be an end of a session or a next hop."""
    if not isinstance(address, IPv4Address | IPv6Address):
        raise ValueError(f"{address!r} is no address")  # noqa: TRY004 - one kind of error for callers
    if address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255"):
        raise ValueError(f"{address} is no address of a host")
    if isinstance(address, IPv6Address) and (address.scope_id or address.is_link_local or address.ipv4_mapped):
        raise ValueError(f"{address} is no global IPv6 address")
