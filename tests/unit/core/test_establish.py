"""The life of a tunnel's IKE_SAs: when to begin, what to end, and when to do nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.desired import Desired
from ikeorch.core.establish import (
    CONFIRM_GONE,
    CONNECT_TIMEOUT,
    FOREIGN_IN_FLIGHT,
    Memory,
    next_wake,
    plan_sas,
    retry_delay,
)
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Initiate, Terminate
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds
from tests.examples import desired_of, gateway_a

T0 = TunnelId("gw-b", 0)


def one_tunnel(spec: GatewaySpec | None = None, count: int = 1) -> Desired:
    """Gateway A with some tunnels."""
    spec = spec or gateway_a()
    peer = replace(spec.peers[0], tunnels=replace(spec.peers[0].tunnels, count=count))
    spec = replace(spec, peers=(peer,))
    return desired_of(spec)


CHILD = ChildSa(name=T0.connection, unique_id=1, state=ChildState.INSTALLED)


def sa(
    state: IkeState = IkeState.ESTABLISHED,
    *,
    number: int = 1,
    age: float = 60,
    children: tuple[ChildSa, ...] = (CHILD,),
) -> IkeSa:
    """An IKE_SA of tunnel 0 that we initiated."""
    if state is not IkeState.ESTABLISHED:
        children = ()
    return IkeSa(
        connection=T0.connection, unique_id=number, state=state, initiator=True, age=Seconds(age), children=children
    )


def charon(*sas: IkeSa, started: str = "1") -> CharonState:
    """A snapshot."""
    return CharonState(version="5.9.8", started=started, sas=sas)


class Tracker:
    """Runs passes one after the other and keeps the memory between them."""

    def __init__(self, desired: Desired | None = None, *, grouped: frozenset[TunnelId] = frozenset()) -> None:
        self.desired = desired or one_tunnel()
        self.grouped = grouped
        self.memory = Memory()

    def step(self, now: float, *sas: IkeSa, started: str = "1") -> list[Initiate | Terminate]:
        actions, self.memory = plan_sas(
            self.desired, charon(*sas, started=started), self.memory, grouped=self.grouped, now=Seconds(now), jitter=0.0
        )
        operations = [action.operation for action in actions]
        assert all(isinstance(operation, Initiate | Terminate) for operation in operations)
        return operations  # type: ignore[return-value]


def test_a_new_tunnel_is_initiated_at_once() -> None:
    """Nothing is there and nothing was: no reason to wait."""
    assert Tracker().step(0) == [Initiate(T0)]


def test_the_responder_never_initiates() -> None:
    """Exactly one end does (D1)."""
    spec = gateway_a()
    other = replace(spec, peers=(replace(spec.peers[0], name="aaa"),))
    desired = replace(one_tunnel(), tunnels={T0: replace(one_tunnel().tunnels[T0], initiator=False)})
    assert not other.initiates(other.peers[0])
    assert Tracker(desired).step(0) == []


def test_an_initiation_is_not_repeated_while_it_runs() -> None:
    """charon queues it; list-sas may show nothing for a moment, then CONNECTING."""
    tracker = Tracker()
    tracker.step(0)
    assert tracker.step(0.1) == []
    assert tracker.step(1, sa(IkeState.CONNECTING)) == []
    assert tracker.step(4.9, sa(IkeState.CONNECTING)) == []


def test_a_silent_peer_is_tried_anew_after_five_seconds() -> None:
    """charon's own retransmissions reach 42 s; the stuck IKE_SA is ended by its number."""
    tracker = Tracker()
    tracker.step(0)
    tracker.step(0.6, sa(IkeState.CONNECTING))
    late = 0.6 + CONNECT_TIMEOUT
    assert tracker.step(late, sa(IkeState.CONNECTING)) == [Terminate(T0.connection, 1, force=True), Initiate(T0)]
    assert tracker.step(late + 1, sa(IkeState.CONNECTING, number=2)) == []


def test_a_refused_attempt_is_retried_with_growing_pauses() -> None:
    """The peer is not configured yet: each refusal doubles the pause up to five seconds, for ever."""
    tracker = Tracker()
    times = [step / 10 for step in range(400) if tracker.step(step / 10)]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:4] == sorted(pauses[:4])
    assert pauses[0] <= 1.3
    assert all(pause == pytest.approx(5.5, abs=0.3) for pause in pauses[4:])


def test_the_pause_is_bounded_and_jittered() -> None:
    """At most 5 s while a path may be healing; jitter only shortens it."""
    assert retry_delay(1, 0.0) == 0.5
    assert retry_delay(1, 1.0) == pytest.approx(0.4)
    assert retry_delay(10_000, 0.0) == 5.0


def test_one_missing_pass_is_no_loss() -> None:
    """A noblock list-sas leaves out an SA that is busy (A37): only a second pass a second later counts."""
    tracker = Tracker()
    assert tracker.step(0, sa()) == []
    assert tracker.step(10) == []
    assert tracker.step(10.5, sa()) == []
    assert tracker.step(20) == []
    assert tracker.step(20 + CONFIRM_GONE) == [Initiate(T0)]


def test_a_restarted_daemon_does_not_initiate_what_the_kernel_routes_over() -> None:
    """It has seen nothing yet, but the kernel's group says that the tunnel was up."""
    tracker = Tracker(grouped=frozenset({T0}))
    assert tracker.step(0) == []
    assert tracker.step(0.5, sa()) == []


def test_a_restarted_charon_is_initiated_again() -> None:
    """Another process knows no SA, so nothing is to be confirmed; the kernel may still forward over the old ones."""
    tracker = Tracker(grouped=frozenset({T0}))
    tracker.step(0, sa())
    assert tracker.step(5, started="2") == [Initiate(T0)]


def test_an_ike_sa_without_child_is_ended_first_and_replaced_after() -> None:
    """A tunnel without CHILD_SA carries nothing (A22); a failure to replace it does not keep it."""
    tracker = Tracker()
    bare = sa(children=())
    assert tracker.step(0, bare) == []
    assert tracker.step(5, bare) == [Terminate(T0.connection, 1, force=False), Initiate(T0)]


def test_the_newest_of_two_stays() -> None:
    """Duplicates are normal for ten seconds; then the older is ended by number, never by name."""
    tracker = Tracker()
    old, new = sa(number=1, age=100), sa(number=2, age=4)
    assert tracker.step(0, old, new) == []
    assert tracker.step(7, replace(old, age=Seconds(107)), replace(new, age=Seconds(11))) == [
        Terminate(T0.connection, 1, force=False)
    ]


def test_a_rekeying_tunnel_is_left_alone() -> None:
    """A rekey shows two children for some seconds."""
    rekeyed = ChildSa(name=T0.connection, unique_id=1, state=ChildState.REKEYED)
    assert Tracker().step(0, sa(children=(rekeyed, replace(CHILD, unique_id=2)))) == []


def test_sas_of_a_removed_tunnel_are_ended() -> None:
    """What is ours and no longer wanted goes."""
    stale = replace(sa(), connection="ikeorch.gone.0")
    assert Tracker().step(0, sa(), stale) == [Terminate("ikeorch.gone.0", 1, force=False)]


def test_a_foreign_peer_gets_two_at_a_time() -> None:
    """Its charon answers the third half-open IKE_SA from one address with a COOKIE."""
    desired = one_tunnel(count=8)
    foreign = replace(desired, tunnels={t: replace(plan, foreign=True) for t, plan in desired.tunnels.items()})
    assert len(Tracker(desired).step(0)) == 8
    started = Tracker(foreign).step(0)
    assert len(started) == 2 * FOREIGN_IN_FLIGHT


def test_without_credentials_nothing_is_begun_or_ended() -> None:
    """Live tunnels stay when the certificate cannot be read."""
    assert Tracker(replace(one_tunnel(), connections=None)).step(0, replace(sa(), connection="ikeorch.gone.0")) == []


def test_the_loop_is_woken_for_what_only_time_changes() -> None:
    """Retry, confirmation and the five-second limit have timers; a settled tunnel has none."""
    tracker = Tracker()
    tracker.step(0)
    wake = next_wake(tracker.memory, Seconds(0))
    assert wake is not None
    assert 0 < wake <= 0.6
    tracker.step(1, sa(IkeState.CONNECTING))
    assert next_wake(tracker.memory, Seconds(1)) == pytest.approx(CONNECT_TIMEOUT)
    tracker.step(2, sa())
    assert next_wake(tracker.memory, Seconds(2)) is None


def test_a_child_that_was_missing_wakes_nobody_once_its_sa_is_gone() -> None:
    """Neither on the responder, who does nothing about it, nor after the SA went: no timer in the past."""
    tracker = Tracker()
    tracker.step(0, sa(children=()))
    tracker.step(2)
    wake = next_wake(tracker.memory, Seconds(100))
    assert all(attempt.childless_since is None for attempt in tracker.memory.attempts.values())
    assert wake is not None
