"""What ExaBGP shows against what it reports."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from bgp.grammar import PeerState, ShownNeighbor, StateEvent
from bgp.peers import Peers
from bgp.session import SessionState
from tests.unit.bgp.test_session import LEAF, change

OURS = ip_address("10.0.0.1")


def event(state: PeerState) -> StateEvent:
    """An event of the leaf's session."""
    return change(state, 2.0)


@pytest.mark.parametrize(
    ("heard", "established", "expected"),
    [(PeerState.UP, False, SessionState.UP), (PeerState.DOWN, True, SessionState.DOWN)],
)
def test_an_event_is_younger_than_the_answer_to_a_question_before_it(
    heard: PeerState, established: bool, expected: SessionState
) -> None:
    """ExaBGP composes its answer, then a session changes, then the answer arrives: it is of the past."""
    said: list[str] = []
    peers = Peers(said.append)
    peers.asking()
    peers.take_event(event(heard), live=True)
    peers.take_shown([ShownNeighbor(address=LEAF, established=established, local=OURS)], 3.0)
    progress = peers._peer(LEAF).progress
    assert (progress.state, progress.local) == (expected, OURS)


def test_an_answer_is_younger_than_the_events_before_the_question() -> None:
    """A session whose end was never reported is noticed when ExaBGP is asked."""
    peers = Peers(lambda _: None)
    peers.take_event(event(PeerState.UP), live=True)
    peers.asking()
    peers.take_shown([ShownNeighbor(address=LEAF, established=False, local=None)], 3.0)
    assert peers._peer(LEAF).progress.state is SessionState.DOWN
