"""What a tunnel is doing, in one word and a few figures: the view that `status` and the API show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import ChildSa, Connection, IkeSa, IkeState
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.desired import CredentialBundle, Desired, TunnelPlan
from ikeorch.core.establish import CONFIRM_GONE, Memory
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.renew import Renewals
from ikeorch.core.spec import WhenUnreachable
from ikeorch.core.units import Seconds
from ikeorch.core.waves import Waves

EXPIRY_WARNING_DAYS = 10
"""A third of the life of a certificate (D9)."""
FIRST_PROBES = Seconds(3.0)
"""Age of a CHILD_SA from which a tunnel that never answered is called down."""


class TunnelState(Enum):
    """A tunnel's state; only CARRYING means that packets have been seen to arrive."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    ESTABLISHED = "established"
    CARRYING = "carrying"
    RECOVERING = "recovering"
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
        reflector_silent: only the peer's kernel answers.
        mispaired: packets of another tunnel come out of it.
        calls_itself: the peer's own name where ours for it is another one, else "".
        too_large: packets as large as its MTU do not come through, smaller ones do.
        untried: probes come back, but none as large as its MTU was answered or given up yet.
    """

    plan: TunnelPlan
    state: TunnelState
    reason: str
    ike: IkeSa | None
    child: ChildSa | None
    rtt: Seconds | None
    weight: int
    reflector_silent: bool = False
    mispaired: bool = False
    calls_itself: str = ""
    too_large: bool = False
    untried: bool = False


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
        reflector_silent=probe.reflector_silent if probe else False,
        mispaired=bool(probe and probe.mispaired),
        calls_itself=probe.calls_itself if probe else "",
        too_large=bool(probe and probe.fits is False),
        untried=bool(probe and probe.fits is None and verdict is Verdict.UP and not probe.reflector_silent),
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
        silent = probe is not None and probe.reflector_silent
        return TunnelState.CARRYING, f"{'echoes' if silent else 'probes'} come back through it"
    if verdict is Verdict.SPARED:
        return TunnelState.CARRYING, "probes come back through it; the peer is about to replace its SAs"
    if verdict is Verdict.RECOVERING:
        return TunnelState.RECOVERING, "it failed and answers again; it joins its group once it has for some seconds"
    if verdict is Verdict.DOWN and (child is not None or actual.charon is None):
        assert probe is not None
        if probe.mispaired:
            return TunnelState.DOWN, f"packets of {probe.mispaired} come out of it"
        if probe.received or child is None or child.age >= FIRST_PROBES:
            return TunnelState.DOWN, "neither probes nor echoes come back through it"
    if actual.charon is None:
        return TunnelState.UNKNOWN, "charon does not answer"
    if child is not None:
        return TunnelState.ESTABLISHED, "no probe has come back yet" if probe else "the prober says nothing of it"
    if ike is not None and ike.state in {IkeState.CREATED, IkeState.CONNECTING}:
        return TunnelState.CONNECTING, f"negotiating with {plan.path.remote}"
    if ike is not None:
        return TunnelState.CONNECTING, "its IKE_SA has no CHILD_SA"
    who = f"{plan.path.remote} did not agree yet" if plan.initiator else "the peer initiates and has not yet"
    return TunnelState.WAITING, who


def find_conditions(
    desired: Desired,
    actual: Actual,
    tunnels: Iterable[TunnelStatus],
    *,
    memory: Memory,
    renewals: Renewals,
    waves: Waves,
    now: Seconds,
) -> list[Condition]:
    """Everything that is wrong with the tunnels and what they need, as seen in one pass at `now` (monotonic)."""
    found: list[Condition] = []
    bundles: dict[str, list[TunnelStatus]] = {}
    for status in tunnels:
        tunnel = status.plan.tunnel
        bundles.setdefault(tunnel.peer, []).append(status)
        if status.state is TunnelState.DOWN:
            code = Code.TUNNEL_MISPAIRED if status.mispaired else Code.TUNNEL_DOWN
            found.append(Condition(code=code, subject=str(tunnel), message=status.reason))
        elif status.state is TunnelState.RECOVERING:
            found.append(Condition(code=Code.TUNNEL_RECOVERING, subject=str(tunnel), message=status.reason))
        elif _is_orphaned(status, actual, memory, now):
            message = "the kernel forwards, but charon has no SA for it, as after a crash of charon"
            found.append(Condition(code=Code.TUNNEL_ORPHANED, subject=str(tunnel), message=message))
        elif status.state in {TunnelState.WAITING, TunnelState.CONNECTING}:
            attempt = memory.attempts.get(tunnel)
            tries = f" after {attempt.failures} attempts" if attempt and attempt.failures else ""
            message = f"{status.reason}{tries}"
            found.append(Condition(code=Code.TUNNEL_PENDING, subject=str(tunnel), message=message))
        connection = (desired.connections or {}).get(tunnel.connection)
        if connection is not None and not status.plan.initiator and (former := _unmoved(status.ike, connection)):
            message = f"its IKE_SA still runs with {former}; the peer, which initiates it, has not moved"
            found.append(Condition(code=Code.RENEWAL_PENDING, subject=str(tunnel), message=message))
        if status.too_large and tunnel not in waves.touches:
            message = f"packets of {status.plan.mtu} bytes do not come through, smaller ones do"
            found.append(Condition(code=Code.MTU_TOO_LARGE, subject=str(tunnel), message=message))
    for peer, members in bundles.items():
        found.extend(_reflector_conditions(peer, members))
        found.extend(_name_conditions(peer, members))
    for tunnel, failures in renewals.refused().items():
        times = "once" if failures == 1 else f"{failures} times"
        message = f"its IKE_SA carries on with the old configuration; the new one came to nothing {times}"
        found.append(Condition(code=Code.RENEWAL_PENDING, subject=str(tunnel), message=message))
    for tunnel, problem in waves.unproven().items():
        message = f"it was changed and is not proven: {problem}; it stays out of its group, no other tunnel is touched"
        found.append(Condition(code=Code.CHANGE_UNPROVEN, subject=str(tunnel), message=message))
    found.extend(_fabric_conditions(desired, actual))
    for site in sorted(set(desired.held.values())):
        dark = ", ".join(str(prefix) for prefix, its_site in desired.held.items() if its_site == site)
        message = f"no tunnel to {dark} answers probes or echoes; the last next-hop group stays"
        if desired.fabric.fabric.neighbors:
            kept = desired.fabric.fabric.when_unreachable is WhenUnreachable.KEEP
            message += ", the fabric hears 1 byte/s" if kept else ", they are withdrawn from the fabric"
        found.append(Condition(code=Code.SITE_DARK, subject=site, message=message))
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


def _unmoved(ike: IkeSa | None, connection: Connection) -> str:
    """What a live IKE_SA has that its connection no longer has, "" when nothing or when nothing is known."""
    if ike is None or not ike.live or connection.mobike:
        return ""
    if ike.remote_address not in {None, connection.remote_address}:
        return f"the peer's address {ike.remote_address}"
    if ike.local_address not in {None, connection.local_address}:
        return f"our address {ike.local_address}"
    return f"the peer's identity {ike.remote_id}" if ike.remote_id not in {"", connection.remote_id} else ""


def _fabric_conditions(desired: Desired, actual: Actual) -> Iterable[Condition]:
    if not desired.fabric.fabric.neighbors:
        return
    fabric = actual.fabric
    if fabric.problem:
        yield Condition(code=Code.EXABGP_UNREACHABLE, subject="", message=fabric.problem)
        return
    for session in fabric.sessions:
        subject, reason = str(session.neighbor.address), session.reason
        if not session.up:
            message = f"AS{session.neighbor.asn}: {reason or 'no session yet'}"
            yield Condition(code=Code.FABRIC_SESSION_DOWN, subject=subject, message=message)
        elif reason:
            yield Condition(code=Code.FABRIC_REFUSED, subject=subject, message=reason)


def find_expiry(credentials: CredentialBundle, now: Seconds) -> list[Condition]:
    """Whether our certificate or the trust anchor ends soon; live tunnels stay all the same (D9).

    Args:
        credentials: what the files hold.
        now: Unix seconds.
    """
    days = (credentials.expires - now) / 86400
    if days > EXPIRY_WARNING_DAYS:
        return []
    message = f"it ends in {days:.1f} days" if days > 0 else f"it ended {-days:.1f} days ago"
    message += "; live tunnels stay, none can be established after that"
    return [Condition(code=Code.CERTIFICATE_EXPIRES, subject="", message=message)]


def _reflector_conditions(peer: str, members: list[TunnelStatus]) -> Iterable[Condition]:
    if any(status.reflector_silent for status in members):
        message = "its kernel answers echoes, its prober answers nothing: the tunnels are judged by echoes alone"
        yield Condition(code=Code.REFLECTOR_SILENT, subject=peer, message=message)


def _name_conditions(peer: str, members: list[TunnelStatus]) -> Iterable[Condition]:
    names = sorted({status.calls_itself for status in members if status.calls_itself})
    if names:
        message = (
            f"its probes say that it is {' or '.join(names)}, here it is {peer}; tunnels that carried before go on"
        )
        yield Condition(code=Code.PEER_NAME_DIFFERS, subject=peer, message=message)


def _is_orphaned(status: TunnelStatus, actual: Actual, memory: Memory, now: Seconds) -> bool:
    """Whether a tunnel carries while charon has had no SA for it for longer than a `noblock` pass may miss one."""
    if status.state is not TunnelState.CARRYING or status.ike is not None or actual.charon is None:
        return False
    attempt = memory.attempts.get(status.plan.tunnel)
    if attempt is None:
        return False
    since = attempt.responder_since if attempt.missing_since is None else attempt.missing_since
    return since is not None and now - since >= CONFIRM_GONE
