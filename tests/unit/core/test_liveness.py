"""The state machine of one tunnel's liveness, on a path of plain Python and a clock that is an argument."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.health import Verdict
from ikeorch.core.liveness import (
    CONFIRM_ROUNDS,
    FREE_FAILURES,
    INTERVAL,
    LONGEST_RECOVERY,
    RECOVERY,
    REFLECTOR_SILENT,
    STARVED,
    Answer,
    Liveness,
)
from ikeorch.core.units import Seconds

RTT = 0.02
Loses = Callable[[float, Answer], bool]


def nothing(_when: float, _kind: Answer) -> bool:
    return False


class Path:
    """A path with a round-trip time, and a rule that says which answers it loses by when their round was sent."""

    def __init__(self, *, loses: Loses = nothing, rtt: float = RTT, proven: bool = False) -> None:
        self.loses = loses
        self.rtt = rtt
        self.now = 1000.0
        self.liveness = Liveness(Seconds(self.now), proven=proven)
        self.answers: list[tuple[float, int, str]] = []
        self.changes: list[tuple[float, Verdict]] = []
        self.echoes = 0

    def run(self, seconds: float) -> None:
        """Let time pass, from one thing that happens to the next."""
        end = self.now + seconds
        while True:
            due = self.liveness.due
            arrival = self.answers[0][0] if self.answers else float("inf")
            if min(due, arrival) > end:
                self.now = end
                return
            self.now = max(self.now, min(due, arrival))
            if arrival <= due:
                _, number, kind = heapq.heappop(self.answers)
                self.liveness.answered(number, Answer(kind), self.now)
            else:
                self._send(self.liveness.advance(self.now))
            self._note()

    def stop_us(self, seconds: float) -> None:
        """Our process is not run; what arrives meanwhile waits in its sockets with its arrival time."""
        self.now += seconds
        while self.answers and self.answers[0][0] <= self.now:
            arrival, number, kind = heapq.heappop(self.answers)
            self.liveness.answered(number, Answer(kind), arrival)

    def verdict(self) -> Verdict:
        """What is said now."""
        return self.liveness.verdict

    def failed_after(self, when: float) -> float | None:
        """Seconds from `when` to the first verdict of down after it."""
        return next((at - when for at, verdict in self.changes if at >= when and verdict is Verdict.DOWN), None)

    def _send(self, number: int | None) -> None:
        if number is None:
            return
        kinds = [Answer.STAMP, Answer.ECHO] if self.liveness.echoing else [Answer.STAMP]
        self.echoes += len(kinds) - 1
        for kind in kinds:
            if not self.loses(self.now, kind):
                heapq.heappush(self.answers, (self.now + self.rtt, number, kind.value))

    def _note(self) -> None:
        if not self.changes or self.changes[-1][1] is not self.liveness.verdict:
            self.changes.append((self.now, self.liveness.verdict))


def settled(loses: Loses = nothing) -> Path:
    """A path whose tunnel has been up for a while."""
    path = Path()
    path.run(5)
    assert path.verdict() is Verdict.UP
    path.loses = loses
    return path


def test_the_first_proper_answer_proves_a_tunnel() -> None:
    """No waiting: a new tunnel joins at once."""
    path = Path()
    path.run(RTT + 0.001)
    assert path.verdict() is Verdict.UP
    assert path.liveness.rtt == pytest.approx(RTT)


def test_an_echo_alone_proves_nothing() -> None:
    """It does not carry the tunnel's name."""
    path = Path(loses=lambda _, kind: kind is Answer.STAMP)
    path.run(10)
    assert path.verdict() is not Verdict.UP
    assert path.echoes


@pytest.mark.parametrize("phase", [0.0, 0.013, 0.05, 0.077, 0.099])
def test_a_silent_tunnel_is_down_within_half_a_second(phase: float) -> None:
    """Two rounds, eight more 20 ms apart, the last deadline; whenever between two rounds it begins."""
    path = settled()
    path.run(phase)
    began = path.now
    path.loses = lambda _when, _kind: True
    path.run(2)
    failed = path.failed_after(began)
    assert failed is not None
    assert 0.25 < failed < 0.45


@pytest.mark.parametrize("length", [0.1, 0.15, 0.2, 0.25])
@pytest.mark.parametrize("phase", [0.0, 0.02, 0.05, 0.08])
def test_a_burst_of_loss_is_no_failure(length: float, phase: float) -> None:
    """Up to a quarter of a second."""
    path = settled()
    path.run(phase)
    began = path.now
    path.loses = lambda when, _kind: began <= when < began + length
    path.run(3)
    assert path.failed_after(began) is None


def test_a_jump_of_the_round_trip_time_is_no_failure() -> None:
    """Late answers are answers; the deadline follows."""
    path = settled()
    began = path.now
    path.rtt = 0.15
    path.run(10)
    assert path.failed_after(began) is None
    before = path.echoes
    path.run(5)
    assert path.echoes == before, "it is still in doubt"


def test_a_great_jump_is_survived() -> None:
    """To more than a failure takes to be found: down for a while, and then the deadline follows."""
    path = settled()
    path.rtt = 0.6
    path.run(2 * RECOVERY)
    assert path.verdict() is Verdict.UP
    assert path.liveness.rtt == pytest.approx(0.6, abs=0.1)


def test_a_silent_reflector_is_no_failure_and_is_told() -> None:
    """The peer's prober is gone: its kernel answers; every round carries an echo until the prober is back."""
    path = settled(lambda _, kind: kind is Answer.STAMP)
    began = path.now
    path.run(REFLECTOR_SILENT + 0.5)
    assert path.failed_after(began) is None
    assert path.liveness.reflector_silent(path.now)
    path.loses = nothing
    path.run(0.5)
    assert not path.liveness.reflector_silent(path.now)
    assert not path.liveness.echoing


def test_with_a_silent_reflector_a_failure_is_still_found() -> None:
    """Echoes are judged as probes are."""
    path = settled(lambda _, kind: kind is Answer.STAMP)
    path.run(5)
    began = path.now
    path.loses = lambda _when, _kind: True
    path.run(2)
    failed = path.failed_after(began)
    assert failed is not None
    assert failed < 0.5


def test_it_returns_after_three_good_seconds() -> None:
    """Not before, and a single loss does not begin them anew."""
    path = settled(lambda _when, _kind: True)
    path.run(20)
    healed = path.now
    path.loses = lambda when, _kind: healed + 1 <= when < healed + 1 + INTERVAL
    path.run(RECOVERY - 0.2)
    assert path.verdict() is Verdict.RECOVERING
    path.run(0.5)
    assert path.verdict() is Verdict.UP


def test_two_losses_in_a_row_interrupt_a_recovery() -> None:
    """It begins anew."""
    path = settled(lambda _when, _kind: True)
    path.run(5)
    healed = path.now
    path.loses = lambda when, _kind: healed + 2 <= when < healed + 2 + 3 * INTERVAL
    path.run(RECOVERY + 0.5)
    assert path.verdict() is Verdict.RECOVERING
    path.run(RECOVERY)
    assert path.verdict() is Verdict.UP


def test_each_further_failure_doubles_the_recovery() -> None:
    """3, 3, 6, 12, 24, 48, 60, 60 seconds; ten quiet minutes later 3 again."""
    path = settled()
    took = [_fail_and_heal(path) for _ in range(8)]
    wanted = [min(RECOVERY * 2 ** max(0, failure - FREE_FAILURES), LONGEST_RECOVERY) for failure in range(1, 9)]
    assert took == [pytest.approx(seconds, abs=0.4) for seconds in wanted]
    path.run(700)
    assert _fail_and_heal(path) == pytest.approx(RECOVERY, abs=0.4)


def _fail_and_heal(path: Path) -> float:
    path.loses = lambda _when, _kind: True
    path.run(1)
    assert path.verdict() is Verdict.DOWN
    path.loses = nothing
    healed = path.now
    path.run(70)
    assert path.verdict() is Verdict.UP
    return next(at for at, verdict in path.changes if at > healed and verdict is Verdict.UP) - healed


@pytest.mark.parametrize("stopped", [STARVED * 2, 1.0, 5.0, 3600.0])
def test_our_own_sleep_is_no_failure(stopped: float) -> None:
    """SIGSTOP of the prober, a busy machine: nothing is concluded from the time in which we did not run."""
    path = settled()
    for _ in range(5):
        began = path.now
        path.stop_us(stopped)
        path.run(0.33)
        assert path.failed_after(began) is None
    assert path.verdict() is Verdict.UP


def test_our_own_sleep_recovers_nothing() -> None:
    """A good answer before and one after are no three good seconds."""
    path = settled(lambda _when, _kind: True)
    path.run(2)
    path.loses = nothing
    path.run(0.3)
    path.stop_us(10)
    path.run(0.3)
    assert path.verdict() is Verdict.RECOVERING


def test_a_prober_that_is_always_late_judges_all_the_same() -> None:
    """Each look comes 0.2 s late for a minute: silence is found, though later; and a good tunnel stays."""
    for loses, wanted in ((nothing, Verdict.UP), (lambda _when, _kind: True, Verdict.DOWN)):
        path = settled(loses)
        for _ in range(150):
            path.stop_us(max(0.0, path.liveness.due + 0.2 - path.now))
            path.run(0.0)
        assert path.verdict() is wanted


def test_hiccups_of_ours_do_not_keep_a_tunnel_out() -> None:
    """160 ms every two seconds."""
    path = settled(lambda _when, _kind: True)
    path.run(5)
    path.loses = nothing
    for _ in range(4):
        path.run(1.84)
        path.stop_us(0.16)
    assert path.verdict() is Verdict.UP


def test_what_was_proven_before_needs_no_new_proof() -> None:
    """After a restart of our prober, with the peer's gone: echoes tell that it carries, and that it came back."""
    path = Path(loses=lambda _, kind: kind is Answer.STAMP, proven=True)
    path.run(5)
    assert path.verdict() is Verdict.UP
    path.loses = lambda _when, _kind: True
    path.run(5)
    assert path.verdict() is Verdict.DOWN
    path.loses = lambda _, kind: kind is Answer.STAMP
    path.run(RECOVERY + 0.5)
    assert path.verdict() is Verdict.UP


def test_crossed_tunnels_are_down_until_the_right_name_answers() -> None:
    """At once, and shown with the name."""
    path = settled(lambda _, kind: kind is Answer.STAMP)
    path.liveness.misplaced("gw-b/1", path.now)
    path.run(10)
    assert (path.verdict(), path.liveness.mispaired) == (Verdict.DOWN, "gw-b/1")
    path.loses = nothing
    path.run(RECOVERY + 0.5)
    assert (path.verdict(), path.liveness.mispaired) == (Verdict.UP, "")


def test_an_answer_to_nothing_is_ignored() -> None:
    """Not sent, long forgotten, or before it was sent."""
    path = settled(lambda _when, _kind: True)
    path.run(2)
    for number in (-1, 0, 1, 10**6):
        path.liveness.answered(number, Answer.STAMP, path.now)
    path.liveness.answered(path.liveness.sent, Answer.STAMP, path.now - 3600)
    path.run(10)
    assert path.verdict() is Verdict.DOWN
    assert path.liveness.received <= path.liveness.sent


def test_one_round_in_ten_lost_is_no_failure() -> None:
    """Ten per cent random loss over an hour, as a fixed sequence."""
    import random

    chance = random.Random(7)
    path = settled(lambda _when, _kind: chance.random() < 0.1)
    began = path.now
    path.run(3600)
    assert path.failed_after(began) is None


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from(["lose", "pass", "stamps", "sleep"])), max_size=30))
def test_whatever_happens_it_is_down_in_silence_and_up_after_healing(steps: list[tuple[float, str]]) -> None:
    """From any past: a minute of silence is down, and two good minutes are up; rounds go on."""
    path = settled()
    rules: dict[str, Loses] = {
        "lose": lambda _when, _kind: True,
        "pass": nothing,
        "stamps": lambda _when, kind: kind is Answer.STAMP,
    }
    for seconds, what in steps:
        if what == "sleep":
            path.stop_us(seconds)
        else:
            path.loses = rules[what]
            path.run(seconds)
    path.loses = rules["lose"]
    path.run(60)
    assert path.verdict() is Verdict.DOWN
    sent = path.liveness.sent
    path.loses = nothing
    path.run(120)
    assert path.verdict() is Verdict.UP
    assert path.liveness.sent - sent >= 1100


def test_the_rounds_of_doubt_are_few() -> None:
    """Eight, each with an echo; then again one an interval."""
    path = settled()
    before = path.liveness.sent
    path.loses = lambda _when, _kind: True
    path.run(1)
    assert path.liveness.sent - before <= 10 + CONFIRM_ROUNDS
