"""What ExaBGP still has to be told about one neighbour's routes. No I/O; time is an argument.

What ExaBGP holds is *unknown* (None) after each loss of contact and is read back from its Adj-RIB-Out; until then
nothing is sent, and above all nothing is withdrawn. It is *empty* only when ExaBGP said so.

Two rules come from ExaBGP 5.0's outgoing queue, which is a dictionary of attribute sets, each with its prefixes:

- A withdrawal carries the attributes of the announcement that it ends. It then takes that announcement's place in the
  queue; with other attributes it would queue beside it, and the first batch of a session leaves withdrawals out.
- A route changes to *other* attributes at most once in `SETTLE` seconds. Of three changes within one batch the last may
  reuse the first one's place, and the peer is left with the second. In the meantime changes coalesce.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bgp.advertisement import Advertisement, IPAddress, IPNetwork, Neighbor
from bgp.link_bandwidth import encode_link_bandwidth

SETTLE = 0.2
"""Seconds; an idle ExaBGP empties its queue in some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route as ExaBGP is told it.

    Attributes:
        prefix: what is announced.
        next_hop: always an address: ExaBGP's `self` fails while it does not know its own.
        community: raw extended community; b"" for a route that has another set of them than we write.
    """

    prefix: IPNetwork
    next_hop: IPAddress
    community: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One command to be sent."""

    route: Route
    announce: bool


def resolve_route(advertisement: Advertisement, neighbor: Neighbor, local_address: IPAddress | None) -> Route | None:
    """The exact route, or None when the neighbour's family differs or our own address is not known yet.

    Args:
        advertisement: what is offered.
        neighbor: to whom.
        local_address: our end of the session as ExaBGP reported it.
    """
    if advertisement.prefix.version != neighbor.address.version:
        return None
    next_hop = advertisement.next_hop or neighbor.local_address or local_address
    if next_hop is None:
        return None
    community = encode_link_bandwidth(
        advertisement.link_bandwidth, asn=neighbor.local_asn, transitive=neighbor.transitive
    )
    return Route(prefix=advertisement.prefix, next_hop=next_hop, community=community)


class Rib:
    """One neighbour's routes: wanted, held by ExaBGP, and on the way."""

    def __init__(self) -> None:
        self._wanted: dict[IPNetwork, Route] | None = None
        self._held: dict[IPNetwork, Route] | None = None
        self._flying: dict[IPNetwork, Change] = {}
        self._dirty: dict[IPNetwork, None] = {}
        self._waiting: dict[IPNetwork, float] = {}
        self._last: dict[IPNetwork, tuple[Route, float]] = {}
        self._again: set[IPNetwork] = set()
        self._refused: dict[IPNetwork, Change] = {}

    @property
    def known(self) -> bool:
        """Whether we know what ExaBGP holds."""
        return self._held is not None

    @property
    def held(self) -> Mapping[IPNetwork, Route]:
        """What ExaBGP holds and has confirmed."""
        return self._held or {}

    @property
    def refused(self) -> tuple[IPNetwork, ...]:
        """Prefixes whose last command was answered with an error."""
        return tuple(self._refused)

    @property
    def settled(self) -> bool:
        """There is a wish, and ExaBGP has confirmed all of it that it will take."""
        return self.known and self._wanted is not None and not (self._dirty or self._waiting or self._flying)

    def want(self, routes: Mapping[IPNetwork, Route]) -> None:
        """Replace the whole wish."""
        old = self._wanted
        self._wanted = dict(routes)
        if old is None:
            self._mark_differences()
            return
        for prefix in old.keys() | routes.keys():
            if old.get(prefix) != routes.get(prefix):
                self._dirty[prefix] = None

    def learn(self, held: Mapping[IPNetwork, Route]) -> None:
        """ExaBGP was asked what it holds, with no command on the way."""
        self._flying.clear()
        self._refused.clear()
        self._held = dict(held)
        self._mark_differences()

    def forget(self) -> None:
        """Contact is lost: what ExaBGP holds is unknown, and so is the fate of what was on the way."""
        self._held = None
        self._flying.clear()
        self._dirty.clear()
        self._waiting.clear()
        self._again.clear()

    def replay(self) -> None:
        """Tell the whole wish again; ExaBGP drops what it has already announced alike."""
        self._refused.clear()
        for prefix in self._wanted or ():
            self._again.add(prefix)
            self._dirty[prefix] = None

    def next_change(self, now: float) -> Change | None:
        """The next command, which is on the way from now on; None when there is none yet.

        Args:
            now: seconds on any clock that does not go back.
        """
        if self._held is None or self._wanted is None:
            return None
        for prefix in [prefix for prefix, due in self._waiting.items() if due <= now]:
            del self._waiting[prefix]
            self._dirty[prefix] = None
        while self._dirty:
            prefix = next(iter(self._dirty))
            del self._dirty[prefix]
            change = self._difference(prefix)
            if change is None or prefix in self._flying or self._refused.get(prefix) == change:
                self._waiting.pop(prefix, None)
                continue
            last, at = self._last.get(prefix, (change.route, now))
            if last != change.route and now < at + SETTLE:
                self._waiting[prefix] = at + SETTLE
                continue
            self._waiting.pop(prefix, None)
            self._again.discard(prefix)
            self._flying[prefix] = change
            return change
        return None

    def answered(self, prefix: IPNetwork, *, done: bool, now: float) -> None:
        """The command for this prefix was answered.

        Args:
            prefix: the command's.
            done: ExaBGP took it.
            now: as for `next_change`.
        """
        change = self._flying.pop(prefix, None)
        if change is None or self._held is None:
            return
        self._last[prefix] = (change.route, now)
        if not done:
            self._refused[prefix] = change
        else:
            self._refused.pop(prefix, None)
            if change.announce:
                self._held[prefix] = change.route
            else:
                self._held.pop(prefix, None)
        self._dirty[prefix] = None
        if len(self._last) > 2 * len(self._held) + 1024:
            self._last = {key: value for key, value in self._last.items() if now < value[1] + SETTLE}

    def due(self) -> float | None:
        """When `next_change` has something again that it holds back now."""
        return min(self._waiting.values(), default=None)

    def _difference(self, prefix: IPNetwork) -> Change | None:
        assert self._wanted is not None
        assert self._held is not None
        wanted, held = self._wanted.get(prefix), self._held.get(prefix)
        if wanted is not None and (wanted != held or prefix in self._again):
            return Change(route=wanted, announce=True)
        if wanted is None and held is not None:
            return Change(route=held, announce=False)
        return None

    def _mark_differences(self) -> None:
        if self._held is None or self._wanted is None:
            return
        for prefix in self._held.keys() | self._wanted.keys():
            if self._held.get(prefix) != self._wanted.get(prefix):
                self._dirty[prefix] = None
