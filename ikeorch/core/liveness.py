"""Whether one tunnel forwards: the state machine behind a verdict (D7, D8). No I/O; time is an argument.

A round is one occasion of sending: a STAMP probe, in doubt also an ICMP echo, which the peer's kernel answers without
its prober. Two lost rounds in a row raise doubt; eight more, close together, settle it. Any answer, also a late one,
is a sign of life, so a jump of the round-trip time is no failure. A tunnel that failed returns after some seconds of
good rounds, longer each time that it fails again; one that was never proven returns with its first proper answer.

When our own process was not run for a while nothing is concluded from that time.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.units import Seconds

INTERVAL = Seconds(0.1)
LOSSES = 2
"""Lost rounds in a row that raise doubt, and that interrupt a recovery."""
CONFIRM_ROUNDS = 8
CONFIRM_INTERVAL = Seconds(0.02)
MIN_SLACK = 0.01
"""A round is lost after srtt + max(4 rttvar, this), in seconds; the estimators are those of RFC 6298 section 2."""
FIRST_DEADLINE = Seconds(1.0)
"""Before the first answer (RFC 6298 section 2.1)."""
LONGEST_DEADLINE = Seconds(2.0)
STARVED = Seconds(0.15)
"""So much later than due, we were not run; the outstanding rounds say nothing then."""
LONGEST_HOLD = Seconds(1.0)
"""A prober that is late all the time judges all the same after this: what arrived was taken in before."""
REFLECTOR_SILENT = Seconds(1.0)
"""Echoes answered for this long without any STAMP reply: the peer's prober is gone, its kernel forwards."""
RECOVERY = Seconds(3.0)
LONGEST_RECOVERY = Seconds(60.0)
DAMPING_WINDOW = Seconds(600.0)
FREE_FAILURES = 2
"""Failures within the window that are followed by the shortest recovery; each further one doubles it."""
REMEMBERED = 64
"""Rounds whose answer is still understood."""


class Answer(Enum):
    """Who answered a round."""

    STAMP = "stamp"
    ECHO = "echo"


class _Phase(Enum):
    STEADY = "steady"
    DOUBT = "doubt"
    DOWN = "down"


class Liveness:
    """One tunnel.

    Args:
        now: monotonic seconds.
        interval: seconds between two rounds.
        proven: an answer with the right name has come through it before, so that echoes count.
    """

    __slots__ = (
        "_confirming",
        "_due",
        "_echoes_since",
        "_failures",
        "_good_since",
        "_held_since",
        "_interval",
        "_jitter",
        "_losses",
        "_next_round",
        "_number",
        "_outstanding",
        "_phase",
        "_proven",
        "_recent",
        "_smooth",
        "_verdict",
        "mispaired",
        "received",
        "rtt",
        "sent",
    )

    def __init__(self, now: Seconds, *, interval: Seconds = INTERVAL, proven: bool = False) -> None:
        self._interval = interval
        self._phase = _Phase.STEADY
        self._proven = proven
        self._number = 0
        self._outstanding: dict[int, float] = {}
        self._recent: dict[int, float] = {}
        self._losses = 0
        self._confirming = 0
        self._next_round: float = now
        self._due: float = now
        self._good_since: float | None = None
        self._echoes_since: float | None = None
        self._failures: deque[float] = deque(maxlen=16)
        self._smooth: float | None = None
        self._jitter = 0.0
        self._verdict = Verdict.UNKNOWN
        self._held_since: float | None = None
        self.mispaired = ""
        self.sent = 0
        self.received = 0
        self.rtt: Seconds | None = None

    @property
    def verdict(self) -> Verdict:
        """What is known of it."""
        recovering = self._phase is _Phase.DOWN and self._good_since is not None and not self.mispaired
        return Verdict.RECOVERING if recovering and self._proven else self._verdict

    @property
    def proven(self) -> bool:
        """Whether an answer with the right name has ever come through it."""
        return self._proven

    @property
    def due(self) -> float:
        """When `advance` must be called next, in monotonic seconds."""
        return self._due

    @property
    def echoing(self) -> bool:
        """Whether the next round also carries an echo."""
        return self._phase is not _Phase.STEADY or self._echoes_since is not None

    def reflector_silent(self, now: float) -> bool:
        """Whether only the peer's kernel has been answering."""
        return self._echoes_since is not None and now - self._echoes_since >= REFLECTOR_SILENT

    def state(self, now: float) -> ProbeState:
        """What is known now, as a value."""
        return ProbeState(
            verdict=self.verdict,
            sent=self.sent,
            received=self.received,
            rtt=self.rtt,
            mispaired=self.mispaired,
            reflector_silent=self.reflector_silent(now),
        )

    def advance(self, now: float) -> int | None:
        """Judge what is overdue. All that has arrived until now must have been given to `answered` before.

        Args:
            now: monotonic seconds.

        Returns:
            The number of a round to send now, None when none is due.
        """
        late = now - self._due
        if late <= STARVED:
            self._held_since = None
        elif self._held_since is None or late > LONGEST_HOLD or now - self._held_since < LONGEST_HOLD:
            self._hold(now, late)
        self._expire(now)
        number = None
        if now >= self._next_round:
            number = self._begin_round(now)
        self._due = self._next_due()
        return number

    def answered(self, number: int, kind: Answer, arrived: float, *, dwell: float = 0.0) -> None:
        """A round was answered.

        Args:
            number: the round's.
            kind: by whom.
            arrived: when, in monotonic seconds.
            dwell: seconds that the reflector held it.
        """
        sent = self._recent.get(number)
        if sent is None or arrived < sent:
            return
        if self._outstanding.pop(number, None) is not None or kind is Answer.STAMP:
            self._measure(arrived - sent)
        self._losses = 0
        if kind is Answer.STAMP:
            del self._recent[number]  # an echo that comes after it says no more
            self.received += 1
            self._show_rtt(max(0.0, arrived - sent - dwell))
            self.mispaired = ""
            self._echoes_since = None
        elif self._echoes_since is None:
            self._echoes_since = arrived
        self._sign_of_life(arrived, proof=kind is Answer.STAMP)

    def misplaced(self, name: str, now: float) -> None:
        """A packet of the tunnel `name` came out of this one: the two ends' SAs are crossed."""
        self.mispaired = name
        if self._phase is not _Phase.DOWN:
            self._fail(now)

    def _begin_round(self, now: float) -> int:
        self._number += 1
        self.sent += 1
        self._outstanding[self._number] = self._recent[self._number] = now
        if len(self._recent) > REMEMBERED:
            del self._recent[next(iter(self._recent))]
        if self._phase is _Phase.DOUBT:
            self._confirming -= 1
            self._next_round = now + CONFIRM_INTERVAL if self._confirming else float("inf")
        else:
            late = now - self._next_round > self._interval
            self._next_round = (now if late else self._next_round) + self._interval
        return self._number

    def _next_due(self) -> float:
        if not self._outstanding:
            return self._next_round
        return min(self._next_round, next(iter(self._outstanding.values())) + self._deadline())

    def _deadline(self) -> float:
        if self._smooth is None:
            return FIRST_DEADLINE
        return min(self._smooth + max(4 * self._jitter, MIN_SLACK), LONGEST_DEADLINE)

    def _hold(self, now: float, late: float) -> None:
        """We were not run: what is outstanding says nothing."""
        self._held_since = now if self._held_since is None or late > LONGEST_HOLD else self._held_since
        self._outstanding.clear()
        self._losses = 0
        if late > LONGEST_HOLD:
            self._good_since = None
        if self._phase is _Phase.DOUBT:
            self._begin_doubt(now)

    def _expire(self, now: float) -> None:
        deadline = self._deadline()
        while self._outstanding:
            number, sent = next(iter(self._outstanding.items()))
            if now < sent + deadline:
                break
            del self._outstanding[number]
            self._lose(now)
        if self._phase is _Phase.DOUBT and not self._confirming and not self._outstanding:
            self._fail(now)

    def _lose(self, now: float) -> None:
        self._losses += 1
        if self._losses < LOSSES:
            return
        if self._phase is _Phase.STEADY:
            self._begin_doubt(now)
        elif self._phase is _Phase.DOWN:
            self._good_since = None

    def _begin_doubt(self, now: float) -> None:
        self._phase = _Phase.DOUBT
        self._confirming = CONFIRM_ROUNDS
        self._next_round = now

    def _fail(self, now: float) -> None:
        """The tunnel is down, until it has been good for long enough."""
        self._phase = _Phase.DOWN
        self._verdict = Verdict.DOWN
        self._good_since = None
        self._echoes_since = None
        self._next_round = now + self._interval
        if self._proven:
            self._failures.append(now)

    def _recovery(self, now: float) -> float:
        """Seconds of good rounds that a return takes."""
        lately = sum(now - failed <= DAMPING_WINDOW for failed in self._failures)
        return float(min(RECOVERY * 2 ** max(0, lately - FREE_FAILURES), LONGEST_RECOVERY))

    def _sign_of_life(self, now: float, *, proof: bool) -> None:
        if self._phase is _Phase.DOUBT:
            self._phase = _Phase.STEADY
            self._next_round = now + self._interval
            self._due = min(self._due, self._next_round)
        if not self._proven:
            if not proof:
                return
            self._proven = True
            self._rise()
        elif self._verdict is Verdict.UNKNOWN:
            self._rise()
        elif self._phase is _Phase.DOWN and not self.mispaired:
            self._good_since = now if self._good_since is None else self._good_since
            if now - self._good_since >= self._recovery(now):
                self._rise()

    def _rise(self) -> None:
        self._phase = _Phase.STEADY
        self._verdict = Verdict.UP

    def _measure(self, elapsed: float) -> None:
        """RFC 6298 section 2, with the reflector's delay: it is what a deadline must allow for."""
        if self._smooth is None:
            self._smooth, self._jitter = elapsed, elapsed / 2
        else:
            self._jitter += (abs(self._smooth - elapsed) - self._jitter) / 4
            self._smooth += (elapsed - self._smooth) / 8

    def _show_rtt(self, rtt: float) -> None:
        self.rtt = Seconds(rtt if self.rtt is None else self.rtt + (rtt - self.rtt) / 8)
