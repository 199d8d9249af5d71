"""Whether a change is proven: every tunnel that it touches carries packets again, as configured now.

A change that is not proven goes again. What broke a tunnel goes at once: packets of the new size do not come back, for
one. What the peer only does not take yet harms nobody, since the old IKE_SAs carry on, and may be changed at the other
end later (D18): that waits for the peer until the change's deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ikeorch.core.conditions import Code
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Step, describe_operation
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.status import TunnelState
from ikeorch.core.units import Seconds
from ikeorch.daemon.pass_result import PassResult

Reason = tuple[str, str]
"""Whom it concerns, and what is wrong."""
SHOWN = 4
"""Reasons that are told of a change; more of them say the same."""
_OF_OTHERS = frozenset({Step.ABANDON, Step.INITIATE})
"""Steps of tunnels that are still waiting for their peer; they are begun again and again."""
_OF_CHANGES = frozenset({Code.RENEWAL_PENDING, Code.CHANGE_UNPROVEN})


class Judgement(Enum):
    """How a trial stands."""

    OPEN = "open"
    PROVEN = "proven"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A judgement and its reason, "" while it is open."""

    judgement: Judgement
    reason: str = ""


def judge_trial(
    result: PassResult | None,
    spec: GatewaySpec,
    *,
    patient: bool,
    left: Seconds,
    narrow: frozenset[TunnelId] = frozenset(),
) -> Ruling:
    """Judge a change by the last pass.

    Args:
        result: the last pass.
        spec: the configuration in force; a pass over an older one says nothing.
        patient: what is not proven may wait for the peer too.
        left: seconds until the deadline.
        narrow: tunnels that did not take packets of their full size before the change either.
    """
    if result is None or result.spec != spec:
        return Ruling(Judgement.OPEN)
    unproven = [(str(tunnel), problem) for tunnel, problem in sorted(result.waves.unproven().items())]
    # a daemon that was killed in the middle of a wave has forgotten whose turn it was, but not what it sees
    unproven += [
        (str(status.plan.tunnel), f"packets of {status.plan.mtu} bytes do not come through, smaller ones do")
        for status in result.tunnels
        if status.too_large and status.plan.tunnel not in narrow and status.plan.tunnel not in result.waves.touches
    ]
    if unproven and not patient:
        return Ruling(Judgement.REFUTED, _join(unproven))
    if left <= 0:
        reasons = [*unproven, *_refusals(result)]
        return Ruling(Judgement.REFUTED, _join(reasons)) if reasons else Ruling(Judgement.PROVEN)
    unseen = result.actual.kernel is None or result.actual.charon is None
    pending = any(action.step not in _OF_OTHERS for action in result.planned)
    untried = any(status.untried for status in result.tunnels)
    if unseen or pending or untried or result.failures or result.changing:
        return Ruling(Judgement.OPEN)
    return Ruling(Judgement.PROVEN)


def _refusals(result: PassResult) -> list[Reason]:
    """Why the change is not done; a tunnel that does not carry anyway, as in a provider's outage, is no reason."""
    reasons: list[Reason] = []
    carrying = {status.plan.tunnel for status in result.tunnels if status.state is TunnelState.CARRYING}
    touched = result.waves.open() - result.waves.leaving() - result.waves.unproven().keys()
    for tunnel in sorted((result.renewing & carrying) | touched | result.refused.keys()):
        told = [
            condition.message
            for condition in result.conditions
            if condition.subject == str(tunnel) and condition.code not in _OF_CHANGES
        ]
        usual = (
            "the peer did not take the changed connection" if tunnel in result.renewing else "it was not changed yet"
        )
        reasons.append((str(tunnel), "; ".join(told) or usual))
    reasons += [(describe_operation(each.action.operation), str(each.error)) for each in result.failures]
    return reasons


def _join(reasons: list[Reason]) -> str:
    """One sentence for each reason, with all whom it concerns."""
    subjects: dict[str, list[str]] = {}
    for subject, reason in reasons:
        subjects.setdefault(reason, []).append(subject)
    told = [f"{', '.join(whom)}: {reason}" for reason, whom in subjects.items()]
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return "; ".join(told[:SHOWN]) + more
