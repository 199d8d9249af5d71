"""What is known of each session, folded from ExaBGP's events and from what it shows when asked. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bgp.advertisement import Advertisement, IPAddress, Neighbor
from bgp.grammar import NotificationEvent, PeerState, ShownNeighbor, StateEvent

NOT_YET = "no connection yet"
LOST = "the TCP connection was refused or lost"
"""ExaBGP says "closing connection" to both."""


_WORDS = {
    (2, 2): "bad peer AS",
    (2, 3): "bad BGP identifier",
    (2, 6): "unacceptable hold time",
    (4, 0): "hold timer expired",
    (6, 1): "maximum number of prefixes reached",
    (6, 2): "administrative shutdown",
    (6, 3): "peer de-configured",
    (6, 4): "administrative reset",
    (6, 5): "connection rejected",
    (6, 6): "other configuration change",
    (6, 7): "connection collision",
    (6, 8): "out of resources",
}
"""RFC 4271 sections 4.5 and 6, RFC 4486 section 4."""


class SessionState(Enum):
    """Where a session stands."""

    DOWN = "down"
    CONNECTING = "connecting"
    UP = "up"
    UNKNOWN = "unknown"
    """ExaBGP's process cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as it is shown.

    Attributes:
        neighbor: as it was wished.
        state: where it stands.
        since: epoch seconds since when, 0.0 when that is not known.
        reason: why it is not up, or what ExaBGP would not take; "" when there is nothing to say.
        sent: what ExaBGP has taken of the wish, in the wish's order.
    """

    neighbor: Neighbor
    state: SessionState
    since: float
    reason: str
    sent: tuple[Advertisement, ...]


@dataclass(slots=True, kw_only=True)
class Progress:
    """The state of one session; grows with events.

    Attributes:
        state: DOWN, CONNECTING or UP.
        since: epoch seconds.
        reason: the last notification or error since the session was up.
        local: our address of the session.
    """

    state: SessionState = SessionState.DOWN
    since: float = 0.0
    reason: str = NOT_YET
    local: IPAddress | None = None

    def notified(self, event: NotificationEvent) -> None:
        """A NOTIFICATION says more than the "down" that follows it."""
        who = "the peer sent" if event.received else "we sent"
        words = _WORDS.get((event.code, event.subcode), "")
        meaning = f" ({words})" if words else ""
        text = f": {event.text}" if event.text else ""
        self.reason = f"{who} NOTIFICATION {event.code}/{event.subcode}{meaning}{text}"

    def changed(self, event: StateEvent) -> bool:
        """A session changed.

        Returns:
            Whether it came up just now.
        """
        self.local = event.local or self.local
        match event.state:
            case PeerState.UP:
                self.state, self.since, self.reason = SessionState.UP, event.at, ""
                return True
            case PeerState.CONNECTED:
                self._move(SessionState.CONNECTING, event.at)
                if self.reason == NOT_YET:
                    self.reason = ""
            case PeerState.DOWN:
                self._move(SessionState.DOWN, event.at)
                # "notification sent (2,2)" only repeats what the notification itself said in words.
                self._lost(event.reason)
        return False

    def _lost(self, reason: str) -> None:
        """Why a connection ended; what a NOTIFICATION said before is told more than once only by the peer."""
        notified = "NOTIFICATION" in self.reason
        if reason == "closing connection":
            if not notified:
                self.reason = LOST
            elif not self.reason.endswith(LOST):
                self.reason += f"; since then {LOST}"
        # "notification sent (2,2)" only repeats what the notification itself said in words.
        elif reason and not (notified and reason.startswith("notification ")):
            self.reason = reason

    def shown(self, entry: ShownNeighbor, now: float) -> bool:
        """ExaBGP was asked, and nothing was heard of the session since the question.

        Returns:
            Whether the session is up and was not known to be.
        """
        self.local = entry.local or self.local
        if entry.established and self.state is not SessionState.UP:
            self.state, self.since, self.reason = SessionState.UP, now, ""
            return True
        if not entry.established and self.state is SessionState.UP:
            self._move(SessionState.DOWN, now)
            self.reason = self.reason or "the session was lost"
        return False

    def _move(self, state: SessionState, at: float) -> None:
        if self.state is not state:
            self.state, self.since = state, at
