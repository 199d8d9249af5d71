"""All that is known of the neighbours together: the wish, the sessions, the routes. No I/O; time is an argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bgp.advertisement import Advertisement, IPAddress, IPNetwork, Neighbor
from bgp.grammar import NotificationEvent, ShownNeighbor, StateEvent
from bgp.rib import Rib, Route, resolve_route
from bgp.session import Progress, Session, SessionState

Wish = Mapping[Neighbor, tuple[Advertisement, ...]]
LIMIT = 4096
"""Neighbours that are remembered though nobody wished for them."""


class Peer:
    """One neighbour.

    Attributes:
        neighbor: as wished, None for one that only ExaBGP knows.
        progress: its session.
        rib: its routes.
        ended_rib: the End-of-RIB marker was sent in this session, or nobody waits for one.
        found_up: the session came up when nobody of us saw it.
    """

    def __init__(self) -> None:
        self.neighbor: Neighbor | None = None
        self.progress = Progress()
        self.rib = Rib()
        self.ended_rib = True
        self.found_up = False
        self._offers: tuple[Advertisement, ...] = ()

    def wish(self, neighbor: Neighbor, offers: tuple[Advertisement, ...]) -> None:
        """Set what the neighbour should hear."""
        self.neighbor, self._offers = neighbor, offers
        self._want()

    def came_up(self, *, replay: bool) -> None:
        """The session is up, or was found up.

        Args:
            replay: tell all routes again.
        """
        self._want()
        self.ended_rib = False
        self.found_up = not replay
        if replay:
            self.rib.replay()

    def learn(self, held: Mapping[IPNetwork, Route]) -> None:
        """ExaBGP was asked what it holds.

        Routes of a session that was found up are an earlier life's, which also ended their replay: the marker is an
        UPDATE message, and nobody is to get one because we were started anew.
        """
        self.rib.learn(held)
        if self.found_up and held:
            self.ended_rib = True
        self.found_up = False

    @property
    def end_of_rib_due(self) -> bool:
        """The peer waits for an End-of-RIB marker, and ExaBGP has all routes that come before it."""
        return (
            not self.ended_rib
            and self.neighbor is not None
            and self.neighbor.graceful_restart is not None
            and self.progress.state is SessionState.UP
            and self.rib.settled
        )

    def session(self, neighbor: Neighbor, trouble: str, problems: Sequence[str]) -> Session:
        """How it is shown.

        Args:
            neighbor: as wished.
            trouble: why ExaBGP cannot be asked, "" when it can.
            problems: what concerns all sessions.
        """
        held, refused = self.rib.held, len(self.rib.refused)
        reasons = (
            trouble,
            *problems,
            self.progress.reason,
            f"ExaBGP refuses {refused} of the routes; its log says why" if refused else "",
        )
        return Session(
            neighbor=neighbor,
            state=SessionState.UNKNOWN if trouble else self.progress.state,
            since=self.progress.since,
            reason="; ".join(reason for reason in reasons if reason),
            sent=tuple(offer for offer, route in self._resolved() if held.get(route.prefix) == route),
        )

    def _want(self) -> None:
        """The wish as exact routes; some must wait until our own address is known."""
        if self.neighbor is not None:
            self.rib.want({route.prefix: route for _, route in self._resolved()})

    def _resolved(self) -> list[tuple[Advertisement, Route]]:
        if self.neighbor is None:
            return []
        pairs = [(offer, resolve_route(offer, self.neighbor, self.progress.local)) for offer in self._offers]
        return [(offer, route) for offer, route in pairs if route is not None]


class Peers:
    """All of them.

    Args:
        on_change: told in a few words which session changed.
    """

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._peers: dict[IPAddress, Peer] = {}
        self._moved: set[IPAddress] = set()
        self.wish: Wish | None = None
        """None until somebody wished: nothing is withdrawn and nothing configured before."""

    @property
    def connecting(self) -> bool:
        """A session is on its way up."""
        return any(peer.progress.state is SessionState.CONNECTING for peer in self._peers.values())

    @property
    def wished(self) -> list[tuple[IPAddress, Peer]]:
        """Those that somebody wished for."""
        return [(address, peer) for address, peer in self._peers.items() if peer.neighbor is not None]

    def put_wish(self, wish: Wish) -> None:
        """Replace the whole wish.

        Raises:
            ValueError: two neighbours at one address, or a prefix twice for one neighbour. The old wish stays.
        """
        addresses = {neighbor.address for neighbor in wish}
        if len(addresses) != len(wish):
            raise ValueError("two neighbours have one address")
        for neighbor, offers in wish.items():
            if len({offer.prefix for offer in offers}) != len(offers):
                raise ValueError(f"a prefix stands twice among those for {neighbor.address}")
        self.wish = wish
        for address in self._peers.keys() - addresses:
            del self._peers[address]
        for neighbor, offers in wish.items():
            self._peer(neighbor.address).wish(neighbor, offers)

    def take_event(self, event: StateEvent | NotificationEvent, *, live: bool) -> None:
        """ExaBGP says that something happened.

        Args:
            event: what.
            live: it happened now; the shim's memory is told before that.
        """
        peer = self._peer(event.neighbor)
        self._moved.add(event.neighbor)
        if isinstance(event, NotificationEvent):
            peer.progress.notified(event)
            return
        before = peer.progress.state
        if peer.progress.changed(event):
            peer.came_up(replay=live)
        self._report(event.neighbor, peer, before)

    def asking(self) -> None:
        """ExaBGP is asked for its neighbours: it may compose its answer before what it reports meanwhile."""
        self._moved.clear()

    def take_shown(self, shown: Sequence[ShownNeighbor], now: float) -> None:
        """ExaBGP has answered; of a session with an event since `asking` the event is the younger word.

        Args:
            shown: its answer.
            now: epoch seconds.
        """
        for entry in shown:
            peer = self._peer(entry.address)
            if entry.address in self._moved:
                peer.progress.local = entry.local or peer.progress.local
                continue
            before = peer.progress.state
            if peer.progress.shown(entry, now):
                peer.came_up(replay=False)
            self._report(entry.address, peer, before)

    def learn(self, held: Mapping[IPAddress, Mapping[IPNetwork, Route]]) -> None:
        """ExaBGP was asked what it holds for its neighbours, with no command on the way.

        Args:
            held: by neighbour; one that is missing is not in ExaBGP's configuration.
        """
        for address, peer in self._peers.items():
            if address in held:
                peer.learn(held[address])
            else:
                peer.rib.forget()

    def forget(self) -> None:
        """Contact is lost."""
        for peer in self._peers.values():
            peer.rib.forget()

    def sessions(self, trouble: str, problems: Sequence[str]) -> dict[IPAddress, Session]:
        """How they are shown; see `Peer.session`."""
        return {
            address: peer.session(peer.neighbor, trouble, problems)
            for address, peer in self._peers.items()
            if peer.neighbor is not None
        }

    def _peer(self, address: IPAddress) -> Peer:
        if address not in self._peers and len(self._peers) >= LIMIT + len(self.wish or ()):
            return Peer()
        return self._peers.setdefault(address, Peer())

    def _report(self, address: IPAddress, peer: Peer, before: SessionState) -> None:
        if peer.progress.state is not before and peer.neighbor is not None:
            self._on_change(f"session {address} is {peer.progress.state.value}")
