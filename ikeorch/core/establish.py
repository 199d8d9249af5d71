"""When to initiate and what to terminate: the life of a tunnel's IKE_SAs.

Pure: snapshots and `now` in, actions and the next memory out. Truth is list-sas alone; what a command answered is not
(`initiate` answers success before anything happened, an `up` tunnel answers it with an error).
One ``noblock`` list-sas may miss an SA that is busy, so a tunnel that was seen, or that the kernel routes over, counts
as gone only after two passes at least a second apart. Only a charon that was seen to start anew certainly has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ikeorch.core.charon_state import CharonState, IkeSa
from ikeorch.core.desired import Desired, TunnelPlan
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Action, Step, begin_sa, end_sa
from ikeorch.core.units import Seconds

CONNECT_TIMEOUT = Seconds(5.0)
"""An IKE_SA in CONNECTING for longer is ended and begun anew: charon's own retransmissions reach 42 s (D2)."""
CONFIRM_GONE = Seconds(1.0)
START_GRACE = Seconds(0.5)
"""charon queues `initiate`; list-sas may not show the new IKE_SA at once."""
CHILDLESS_TIMEOUT = Seconds(5.0)
DUPLICATE_AGE = Seconds(10.0)
"""Duplicates are normal for this long around a rekey or a re-establishment (I2)."""
RETRY_FIRST = Seconds(0.5)
RETRY_CAP = Seconds(5.0)
FOREIGN_IN_FLIGHT = 2
"""A foreign charon answers the third half-open IKE_SA from one address with a COOKIE (cookie_threshold_ip)."""
IN_FLIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is remembered of one tunnel.

    Attributes:
        seen: it had a live IKE_SA in some pass.
        missing_since: monotonic seconds of the first pass in a row without any SA.
        responder_since: the same where the peer initiates; nothing is done about it but to say so.
        connecting: (charon's id, since when) of the IKE_SA that is being set up; id 0 until list-sas shows it.
        childless_since: since when the live IKE_SA has had no CHILD_SA.
        failures: attempts in a row that came to nothing.
        not_before: the next attempt's earliest time.
    """

    seen: bool = False
    missing_since: Seconds | None = None
    responder_since: Seconds | None = None
    connecting: tuple[int, Seconds] | None = None
    childless_since: Seconds | None = None
    failures: int = 0
    not_before: Seconds = Seconds(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one pass hands to the next.

    Attributes:
        charon_started: which charon process the attempts belong to.
        attempts: by tunnel.
    """

    charon_started: str = ""
    attempts: Mapping[TunnelId, Attempt] = field(default_factory=dict)


def retry_delay(failures: int, jitter: float, *, first: Seconds = RETRY_FIRST, cap: Seconds = RETRY_CAP) -> Seconds:
    """The pause before the next attempt: doubling from 0.5 s, at most 5 s while the path may be healing.

    Args:
        failures: attempts in a row that came to nothing, at least 1.
        jitter: a random number from 0 to 1; it shortens the pause by up to a fifth.
        first: the pause after the first failure.
        cap: the longest pause.
    """
    return Seconds(min(first * 2 ** min(failures - 1, 10), cap) * (1 - 0.2 * jitter))


def plan_sas(
    desired: Desired,
    charon: CharonState,
    memory: Memory,
    *,
    grouped: frozenset[TunnelId],
    renewing: frozenset[TunnelId] = frozenset(),
    now: Seconds,
    jitter: float,
) -> tuple[tuple[Action, ...], Memory]:
    """Decide on every tunnel's IKE_SAs.

    Args:
        desired: what should be.
        charon: this pass's snapshot.
        memory: what the last pass returned.
        grouped: tunnels that the kernel routes over; missing SAs of these are confirmed before anything is done.
        renewing: tunnels whose live IKE_SA is being replaced (`ikeorch.core.renew`); two of them are as it should be.
        now: monotonic seconds.
        jitter: a random number from 0 to 1.

    Returns:
        The actions in order, and the next memory.
    """
    restarted = bool(memory.charon_started) and charon.started != memory.charon_started
    if charon.started != memory.charon_started:
        memory = Memory(charon_started=charon.started)
    if desired.connections is None:
        return (), memory
    by_connection = charon.by_connection()
    actions: list[Action] = []
    attempts: dict[TunnelId, Attempt] = {}
    in_flight = _count_in_flight(charon)
    for tunnel, plan in desired.tunnels.items():
        attempt = memory.attempts.get(tunnel, Attempt(seen=tunnel in grouped and not restarted))
        sas = by_connection.pop(tunnel.connection, [])
        if tunnel in renewing and any(sa.live for sa in sas):
            attempts[tunnel] = _alive(attempt)
            continue
        done, attempt = _plan_tunnel(plan, sas, attempt, in_flight, now=now, jitter=jitter)
        actions.extend(done)
        attempts[tunnel] = attempt
    for sas in by_connection.values():
        actions.extend(end_sa(sa, "no longer configured", tunnel=None) for sa in sas if sa.live)
    return tuple(actions), replace(memory, attempts=attempts)


def next_wake(memory: Memory, now: Seconds) -> Seconds | None:
    """When the next pass must run for a timer's sake alone; None when only an event can change something."""
    times: list[float] = []
    for attempt in memory.attempts.values():
        if attempt.connecting is not None:
            known = attempt.connecting[0] != 0
            times.append(attempt.connecting[1] + (CONNECT_TIMEOUT if known else START_GRACE))
        elif attempt.missing_since is not None:
            times.append(max(attempt.not_before, attempt.missing_since + CONFIRM_GONE if attempt.seen else 0))
        if attempt.responder_since is not None and now < attempt.responder_since + CONFIRM_GONE:
            times.append(attempt.responder_since + CONFIRM_GONE)
        if attempt.childless_since is not None:
            times.append(attempt.childless_since + CHILDLESS_TIMEOUT)
    return Seconds(max(min(times), now + 0.05)) if times else None


def _count_in_flight(charon: CharonState) -> dict[str, int]:
    """IKE_SAs being set up by us, by local address; "" counts all."""
    counts: dict[str, int] = {}
    for sa in charon.sas:
        if sa.connecting and sa.initiator:
            for key in ("", str(sa.local_address)):
                counts[key] = counts.get(key, 0) + 1
    return counts


def _plan_tunnel(
    plan: TunnelPlan, sas: list[IkeSa], attempt: Attempt, in_flight: dict[str, int], *, now: Seconds, jitter: float
) -> tuple[list[Action], Attempt]:
    live = [sa for sa in sas if sa.live]
    if live:
        return _keep_live(plan, live, attempt, now)
    attempt = replace(attempt, childless_since=None)
    if not plan.initiator:
        since = now if attempt.responder_since is None else attempt.responder_since
        return [], replace(attempt, seen=False, connecting=None, missing_since=None, responder_since=since)
    connecting = [sa for sa in sas if sa.connecting]
    if connecting:
        sa = connecting[-1]
        same = attempt.connecting is not None and attempt.connecting[0] in {0, sa.unique_id}
        since = attempt.connecting[1] if attempt.connecting is not None and same else now
        if now - since < CONNECT_TIMEOUT:
            return [], replace(attempt, connecting=(sa.unique_id, since), missing_since=None)
        failures = attempt.failures + 1
        end = end_sa(sa, f"no answer for {CONNECT_TIMEOUT:.0f} s", tunnel=plan.tunnel, step=Step.ABANDON)
        start = begin_sa(plan.tunnel, f"attempt {failures + 1}")
        return [end, start], replace(attempt, connecting=(0, now), missing_since=now, failures=failures)
    return _start(plan, attempt, in_flight, now=now, jitter=jitter)


def _keep_live(plan: TunnelPlan, live: list[IkeSa], attempt: Attempt, now: Seconds) -> tuple[list[Action], Attempt]:
    """Tend a tunnel that has at least one live IKE_SA: a child must be there, and only the newest one stays."""
    attempt = _alive(attempt)
    working = [sa for sa in live if sa.forwards]
    if not working:
        since = now if attempt.childless_since is None else attempt.childless_since
        if not plan.initiator:
            return [], replace(attempt, childless_since=None)
        if now - since < CHILDLESS_TIMEOUT:
            return [], replace(attempt, childless_since=since)
        reason = "its IKE_SA has no CHILD_SA"
        ends = [end_sa(sa, reason, tunnel=plan.tunnel, step=Step.ABANDON) for sa in live]
        return [*ends, begin_sa(plan.tunnel, reason)], replace(attempt, childless_since=None)
    attempt = replace(attempt, childless_since=None)
    newest = min(working, key=lambda sa: (sa.age, -sa.unique_id))
    if len(live) == 1 or newest.age < DUPLICATE_AGE:
        return [], attempt
    surplus = [sa for sa in live if sa is not newest]
    return [end_sa(sa, "duplicate of a newer one", tunnel=plan.tunnel) for sa in surplus], attempt


def _alive(attempt: Attempt) -> Attempt:
    """What is remembered of a tunnel with a live IKE_SA."""
    return Attempt(seen=True, childless_since=attempt.childless_since)


def _start(
    plan: TunnelPlan, attempt: Attempt, in_flight: dict[str, int], *, now: Seconds, jitter: float
) -> tuple[list[Action], Attempt]:
    """Initiate a tunnel that has no SA at all, when it is really gone, its pause is over and the way is free."""
    missing_since = now if attempt.missing_since is None else attempt.missing_since
    attempt = replace(attempt, missing_since=missing_since)
    if attempt.connecting is not None:
        if now - attempt.connecting[1] < START_GRACE:
            return [], attempt
        # the attempt that was under way ended without an SA: the peer refused it or is not ready
        failures = attempt.failures + 1
        pause = Seconds(now + retry_delay(failures, jitter))
        attempt = replace(attempt, connecting=None, failures=failures, not_before=pause)
    if attempt.seen and now - missing_since < CONFIRM_GONE:
        return [], attempt
    local = str(plan.path.local)
    full = in_flight.get("", 0) >= IN_FLIGHT or (plan.foreign and in_flight.get(local, 0) >= FOREIGN_IN_FLIGHT)
    if now < attempt.not_before or full:
        return [], attempt
    for key in ("", local):
        in_flight[key] = in_flight.get(key, 0) + 1
    reason = "no IKE_SA" if attempt.failures == 0 else f"no IKE_SA after {attempt.failures} attempts"
    return [begin_sa(plan.tunnel, reason)], replace(attempt, connecting=(0, now), seen=False)
