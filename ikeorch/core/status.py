"""What a tunnel is doing, in one word and a few figures: the view that `status` and the API show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import ChildSa, IkeSa, IkeState
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.desired import Desired, TunnelPlan
from ikeorch.core.establish import CONFIRM_GONE, Memory
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import XfrmInterface
from ikeorch.core.units import Seconds


class TunnelState(Enum):
    """A tunnel's state; only CARRYING means that packets have been seen to arrive."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    ESTABLISHED = "established"
    CARRYING = "carrying"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelStatus:
    """One tunnel now.

    Attributes:
        plan: what is fixed about it.
        state: in one word.
        reason: why it is in this state, one sentence.
        ike: the IKE_SA that counts (the newest with a forwarding child), None without one.
        child: its CHILD_SA.
        rtt: seconds, None before the first probe came back.
        weight: in its group, 0 outside.
    """

    plan: TunnelPlan
    state: TunnelState
    reason: str
    ike: IkeSa | None
    child: ChildSa | None
    rtt: Seconds | None
    weight: int


def describe_tunnels(
    desired: Desired, actual: Actual, probes: Mapping[TunnelId, ProbeState], verdicts: Mapping[TunnelId, Verdict]
) -> tuple[TunnelStatus, ...]:
    """The status of every configured tunnel, in order."""
    return tuple(
        _describe(plan, actual, probes.get(tunnel), verdicts.get(tunnel, Verdict.UNKNOWN), desired.weights[tunnel])
        for tunnel, plan in sorted(desired.tunnels.items())
    )


def _describe(
    plan: TunnelPlan, actual: Actual, probe: ProbeState | None, verdict: Verdict, weight: int
) -> TunnelStatus:
    ike, child = current_sa(actual.sas_of(plan.tunnel))
    state, reason = _judge(plan, actual, ike=ike, child=child, probe=probe, verdict=verdict)
    return TunnelStatus(
        plan=plan,
        state=state,
        reason=reason,
        ike=ike,
        child=child,
        rtt=probe.rtt if probe else None,
        weight=weight,
    )


def current_sa(sas: Iterable[IkeSa]) -> tuple[IkeSa | None, ChildSa | None]:
    """The newest IKE_SA with a forwarding child and that child, else the newest IKE_SA alone."""
    newest: IkeSa | None = None
    for sa in sorted(sas, key=lambda each: each.unique_id, reverse=True):
        forwarding = [child for child in sa.children if child.forwards]
        if forwarding:
            return sa, max(forwarding, key=lambda child: child.unique_id)
        newest = newest or sa
    return newest, None


def _judge(
    plan: TunnelPlan,
    actual: Actual,
    *,
    ike: IkeSa | None,
    child: ChildSa | None,
    probe: ProbeState | None,
    verdict: Verdict,
) -> tuple[TunnelState, str]:
    if verdict is Verdict.UP:
        return TunnelState.CARRYING, "probes come back through it"
    if verdict is Verdict.DOWN and (child is not None or actual.charon is None):
        misplaced = probe.mispaired if probe else ""
        why = f"packets of {misplaced} come out of it" if misplaced else "silent while another tunnel answers"
        return TunnelState.DOWN, why
    if actual.charon is None:
        return TunnelState.UNKNOWN, "charon does not answer"
    if child is not None:
        silent = "probes have stopped coming back through the whole bundle" if probe and probe.received else ""
        return TunnelState.ESTABLISHED, silent or "no probe has come back yet"
    if ike is not None and ike.state in {IkeState.CREATED, IkeState.CONNECTING}:
        return TunnelState.CONNECTING, f"negotiating with {plan.path.remote}"
    if ike is not None:
        return TunnelState.CONNECTING, "its IKE_SA has no CHILD_SA"
    who = f"{plan.path.remote} did not agree yet" if plan.initiator else "the peer initiates and has not yet"
    return TunnelState.WAITING, who


def find_conditions(
    desired: Desired, actual: Actual, tunnels: Iterable[TunnelStatus], memory: Memory, now: Seconds
) -> list[Condition]:
    """Everything that is wrong with the tunnels and what they need, as seen in one pass at `now` (monotonic)."""
    found: list[Condition] = []
    silent: dict[str, list[TunnelStatus]] = {}
    for status in tunnels:
        tunnel = status.plan.tunnel
        silent.setdefault(tunnel.peer, []).append(status)
        if status.state is TunnelState.DOWN:
            code = Code.TUNNEL_MISPAIRED if "come out of" in status.reason else Code.TUNNEL_DOWN
            found.append(Condition(code=code, subject=str(tunnel), message=status.reason))
        elif _is_orphaned(status, actual, memory, now):
            message = "the kernel forwards, but charon has no SA for it, as after a crash of charon"
            found.append(Condition(code=Code.TUNNEL_ORPHANED, subject=str(tunnel), message=message))
        elif status.state in {TunnelState.WAITING, TunnelState.CONNECTING}:
            attempt = memory.attempts.get(tunnel)
            tries = f" after {attempt.failures} attempts" if attempt and attempt.failures else ""
            message = f"{status.reason}{tries}"
            found.append(Condition(code=Code.TUNNEL_PENDING, subject=str(tunnel), message=message))
    for peer, members in silent.items():
        if all(status.state is TunnelState.ESTABLISHED for status in members):
            message = f"none of {len(members)} established tunnels answers probes"
            found.append(Condition(code=Code.BUNDLE_SILENT, subject=peer, message=message))
    if actual.kernel is not None:
        needed = {plan.path.interface for plan in desired.tunnels.values()}
        for device in sorted(needed - set(actual.kernel.devices)):
            message = f"there is no network device {device}"
            found.append(Condition(code=Code.UPLINK_MISSING, subject=device, message=message))
    if desired.credentials is not None:
        missing = sorted(
            plan.local_id for plan in desired.tunnels.values() if plan.local_id not in desired.credentials.names
        )
        if missing:
            message = f"our certificate does not name {missing[0]}"
            message += f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            found.append(Condition(code=Code.CERTIFICATE_LACKS_NAME, subject="", message=message))
    return found


def _is_orphaned(status: TunnelStatus, actual: Actual, memory: Memory, now: Seconds) -> bool:
    """Whether a tunnel carries while charon has had no SA for it for longer than a `noblock` pass may miss one."""
    if status.state is not TunnelState.CARRYING or status.ike is not None or actual.charon is None:
        return False
    attempt = memory.attempts.get(status.plan.tunnel)
    if attempt is None:
        return False
    since = attempt.responder_since if attempt.missing_since is None else attempt.missing_since
    return since is not None and now - since >= CONFIRM_GONE


def interfaces_present(actual: Actual) -> frozenset[TunnelId]:
    """Tunnels whose XFRM interface exists."""
    if actual.kernel is None:
        return frozenset()
    return frozenset(
        entry.tunnel for entry in actual.kernel.objects.values() if isinstance(entry, XfrmInterface) and entry.up
    )
