"""The log lines of a pass: what was done, what failed, which conditions came and went."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from ikeorch.core.conditions import Condition
from ikeorch.core.plan import Action, Impact, describe_operation
from ikeorch.daemon.execute import Failure

_log = structlog.get_logger("ikeorch.loop")


def log_actions(done: Sequence[Action], failures: Sequence[Failure]) -> None:
    """One line an action."""
    for action in done:
        _log.info("action_done", **_described(action))
    for failure in failures:
        _log.warning("action_failed", **_described(failure.action), error=str(failure.error))


def log_pass(*, number: int, done: int, failed: int, reasons: Sequence[str], duration_seconds: float) -> None:
    """One line a pass; a pass that did nothing is for debugging only."""
    log = _log.info if done or failed else _log.debug
    log(
        "pass_finished",
        number=number,
        reason=", ".join(reasons),
        done=done,
        failed=failed,
        duration_seconds=round(duration_seconds, 4),
    )


def log_conditions(before: Sequence[Condition], after: Sequence[Condition]) -> None:
    """One line for each condition that was raised or cleared."""
    old = {(condition.code, condition.subject) for condition in before}
    new = {(condition.code, condition.subject) for condition in after}
    for condition in after:
        if (condition.code, condition.subject) not in old:
            _log.warning("condition_raised", **_named(condition), reason=condition.message, hint=condition.hint)
    for condition in before:
        if (condition.code, condition.subject) not in new:
            _log.info("condition_cleared", **_named(condition))


def _named(condition: Condition) -> dict[str, str]:
    """What identifies a condition, and what the registry says of it."""
    return {
        "code": condition.code.value,
        "subject": condition.subject,
        "class": condition.kind.value,
        "severity": condition.severity.value,
    }


def _described(action: Action) -> dict[str, str]:
    """The action's keys of a log line, without those that say nothing."""
    keys = {"action": f"{action.symbol.value} {describe_operation(action.operation)}", "reason": action.reason}
    if action.tunnel is not None:
        keys["tunnel"] = str(action.tunnel)
    if action.impact is not Impact.NONE:
        keys["impact"] = action.impact.value
    return keys
