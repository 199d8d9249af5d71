"""How events become a session's state and its reason."""

from __future__ import annotations

from ipaddress import ip_address

from bgp.advertisement import IPAddress
from bgp.grammar import NotificationEvent, PeerState, ShownNeighbor, StateEvent
from bgp.session import LOST, NOT_YET, Progress, SessionState

LEAF = ip_address("10.0.0.254")
OURS = ip_address("10.0.0.1")


def change(state: PeerState, at: float = 1.0, *, reason: str = "", local: IPAddress | None = None) -> StateEvent:
    """An event."""
    return StateEvent(neighbor=LEAF, state=state, at=at, local=local, reason=reason)


def notification(*, received: bool = False, text: str = "") -> NotificationEvent:
    """A NOTIFICATION."""
    return NotificationEvent(neighbor=LEAF, received=received, code=2, subcode=2, text=text)


def shown(*, established: bool) -> ShownNeighbor:
    """What ExaBGP shows."""
    return ShownNeighbor(address=LEAF, established=established, local=None)


def test_a_session_that_was_never_there_says_so() -> None:
    """Before the first attempt."""
    assert (Progress().state, Progress().reason) == (SessionState.DOWN, NOT_YET)


def test_coming_up_clears_the_reason_and_keeps_our_address() -> None:
    """ExaBGP forgets its own address with a reload; we do not."""
    progress = Progress()
    assert not progress.changed(change(PeerState.CONNECTED))
    assert progress.state is SessionState.CONNECTING
    assert progress.changed(change(PeerState.UP, 2.0, local=OURS))
    assert (progress.state, progress.since, progress.reason, progress.local) == (SessionState.UP, 2.0, "", OURS)
    progress.changed(change(PeerState.DOWN, 3.0))
    assert progress.local == OURS


def test_a_notification_says_more_than_the_down_after_it() -> None:
    """And stays the reason while ExaBGP tries again."""
    progress = Progress()
    progress.notified(notification(text="ASN in OPEN (65009) did not match ASN expected (65001)"))
    progress.changed(change(PeerState.DOWN, reason="notification sent (2,2)"))
    progress.changed(change(PeerState.CONNECTED, 2.0))
    expected = "we sent NOTIFICATION 2/2 (bad peer AS): ASN in OPEN (65009) did not match ASN expected (65001)"
    assert (SessionState.CONNECTING, expected) == (progress.state, progress.reason)
    progress.changed(change(PeerState.DOWN, 3.0, reason="closing connection"))
    assert progress.reason == f"{expected}; since then {LOST}"
    progress.changed(change(PeerState.DOWN, 4.0, reason="closing connection"))
    assert progress.reason == f"{expected}; since then {LOST}"
    progress.changed(change(PeerState.UP, 5.0))
    progress.changed(change(PeerState.DOWN, 6.0, reason="closing connection"))
    assert progress.reason == LOST


def test_who_sent_the_notification_is_named() -> None:
    """Also without words."""
    progress = Progress()
    progress.notified(notification(received=True))
    assert progress.reason == "the peer sent NOTIFICATION 2/2 (bad peer AS)"


def test_since_is_when_the_state_began() -> None:
    """Repeated events do not move it."""
    progress = Progress()
    progress.changed(change(PeerState.CONNECTED, 1.0))
    progress.changed(change(PeerState.CONNECTED, 2.0))
    assert progress.since == 1.0


def test_what_is_shown_outweighs_what_was_heard() -> None:
    """Events may have been lost with a shim."""
    progress = Progress()
    assert progress.shown(shown(established=True), 5.0)
    assert (progress.state, progress.since) == (SessionState.UP, 5.0)
    assert not progress.shown(shown(established=True), 6.0)
    assert progress.since == 5.0
    assert not progress.shown(shown(established=False), 7.0)
    assert (progress.state, progress.reason) == (SessionState.DOWN, "the session was lost")
