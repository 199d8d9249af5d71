"""Numbers that the kernel wants: given once, kept for ever.

A tunnel keeps its if_id, a group its id, an uplink its table, whatever else is added or removed around it. The store
remembers them; this module only says which ones are still to be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.ids import INTERFACE_PREFIX, MAX_IF_ID, TunnelId
from ikeorch.core.kernel_state import Family
from ikeorch.core.spec import GatewaySpec


class Kind(Enum):
    """What a number is for; the value is the store's key. Each kind has a range of its own."""

    IF_ID = "if_id"
    TABLE = "table"
    NEXT_HOP = "next_hop"

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last number of the kind.

        Tables lie above those that distributions use; next-hop ids lie far above the ones that a routing daemon
        counts up from 1.
        """
        match self:
            case Kind.IF_ID:
                return 1, MAX_IF_ID
            case Kind.TABLE:
                return 7301, 9999
            case Kind.NEXT_HOP:
                return 0x4900_0001, 0x49FF_FFFF


Wanted = tuple[Kind, str]


class ExhaustedError(ValueError):
    """A kind has no number left."""


@dataclass(frozen=True, slots=True)
class Allocations:
    """All numbers given so far.

    Attributes:
        numbers: by kind and name.
    """

    numbers: Mapping[Wanted, int]

    def if_id(self, tunnel: TunnelId) -> int:
        """The tunnel's if_id."""
        return self.numbers[Kind.IF_ID, str(tunnel)]

    def interface(self, tunnel: TunnelId) -> str:
        """The tunnel's XFRM interface."""
        return f"{INTERFACE_PREFIX}{self.if_id(tunnel)}"

    def table(self, uplink: str) -> int:
        """The uplink's routing table; its rules have the same number as priority."""
        return self.numbers[Kind.TABLE, uplink]

    def next_hop(self, tunnel: TunnelId, family: Family) -> int:
        """The tunnel's next hop of a family."""
        return self.numbers[Kind.NEXT_HOP, f"{tunnel} ipv{family.value}"]

    def group(self, site: str, peers: tuple[str, ...], family: Family) -> int:
        """The group of all tunnels to a set of a site's peers."""
        return self.numbers[Kind.NEXT_HOP, group_name(site, peers, family)]


def group_name(site: str, peers: tuple[str, ...], family: Family) -> str:
    """The store's name of a group: one for each set of peers that offers a prefix, and family."""
    return f"group {site} via {','.join(peers)} ipv{family.value}"


def wanted_numbers(spec: GatewaySpec) -> tuple[Wanted, ...]:
    """Every number that a configuration needs, in a stable order."""
    wanted: list[Wanted] = [(Kind.TABLE, uplink.name) for uplink in spec.uplinks]
    for peer in spec.peers:
        for tunnel in peer.tunnel_ids:
            wanted.append((Kind.IF_ID, str(tunnel)))
            wanted.extend((Kind.NEXT_HOP, f"{tunnel} ipv{family.value}") for family in Family)
    for site, peers in sorted(set(offering_peers(spec).values())):
        wanted.extend((Kind.NEXT_HOP, group_name(site, peers, family)) for family in Family)
    return tuple(dict.fromkeys(wanted))


def offering_peers(spec: GatewaySpec) -> dict[str, tuple[str, tuple[str, ...]]]:
    """For each prefix (as text): its site, and the peers with tunnels that offer it, sorted by name."""
    offers: dict[str, tuple[str, set[str]]] = {}
    for peer in spec.peers:
        if peer.tunnels.count:
            for prefix in peer.prefixes:
                offers.setdefault(str(prefix), (peer.site, set()))[1].add(peer.name)
    return {prefix: (site, tuple(sorted(peers))) for prefix, (site, peers) in offers.items()}


def allocate_missing(given: Mapping[Wanted, int], wanted: Iterable[Wanted]) -> dict[Wanted, int]:
    """Numbers for what has none yet: the lowest that its kind has never given.

    Args:
        given: all numbers given so far.
        wanted: what must have one.

    Returns:
        Only the new ones.

    Raises:
        ExhaustedError: no number of that kind is left.
    """
    new: dict[Wanted, int] = {}
    highest = {kind: kind.bounds[0] - 1 for kind in Kind}
    for (kind, _), number in given.items():
        highest[kind] = max(highest[kind], number)
    for kind, name in wanted:
        if (kind, name) in given or (kind, name) in new:
            continue
        highest[kind] += 1
        if highest[kind] > kind.bounds[1]:
            raise ExhaustedError(f"no {kind.value} is left for {name}")
        new[kind, name] = highest[kind]
    return new
