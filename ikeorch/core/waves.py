"""Changes to live tunnels outside of charon: in waves, each proven by packets, and nothing in the way meanwhile.

A tunnel that is to have another MTU, other inner addresses or an XFRM interface made anew is first kept free of
traffic: it leaves our groups, and the peer is asked in our probes to leave it out of its own. Then it is changed, and
packets of its full size must come back through it. Only then it returns, and the next ones have their turn; never more
than half of a bundle at a time, together with those whose IKE_SA is being replaced (`ikeorch.core.renew`). A tunnel
that is not proven stays out, and no other one of its bundle is touched.

A tunnel that is to go away is kept free of traffic in the same way before anything of it is taken down, and an
underlay address is given up only once no live IKE_SA runs on it.

Pure: snapshots and `now` in, what is touched out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ikeorch.core.actual import Actual
from ikeorch.core.desired import Desired
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import SourceRule, UnderlayRoute, XfrmInterface
from ikeorch.core.plan import Action, EnsureObject, RemoveObject, Step, Terminate
from ikeorch.core.renew import LEAD, at_once, bundles
from ikeorch.core.units import Seconds

PROOF = Seconds(10.0)
"""From the change until packets must have come back."""

_ALIVE = frozenset({Verdict.UP, Verdict.SPARED})
_TAKEN_DOWN = frozenset({Step.NEXT_HOP_REMOVE, Step.CONNECTION_REMOVE, Step.TERMINATE, Step.LINK_REMOVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A tunnel that is kept free of traffic.

    Attributes:
        since: monotonic seconds; since when it has been.
        wanted: its interface as it is to be, None for one that goes away.
        acted: when it was changed, None while it waits for its traffic to go.
        problem: why it is not proven, "" while that is still open.
    """

    since: Seconds
    wanted: XfrmInterface | None = None
    acted: Seconds | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """What one pass hands to the next.

    Attributes:
        touches: tunnels that are kept free of traffic.
        due: tunnels that carry and are to be changed, but whose turn has not come.
    """

    touches: Mapping[TunnelId, Touch] = field(default_factory=dict)
    due: frozenset[TunnelId] = frozenset()

    def spared(self) -> frozenset[TunnelId]:
        """Tunnels that should carry nothing but probes, where others can."""
        return frozenset(self.touches)

    def open(self) -> frozenset[TunnelId]:
        """Tunnels that are not as they should be yet, or not proven."""
        return frozenset(self.touches) | self.due

    def waiting(self) -> frozenset[TunnelId]:
        """Tunnels that are not to be changed or taken down yet."""
        return self.due | {tunnel for tunnel, touch in self.touches.items() if touch.acted is None}

    def leaving(self) -> frozenset[TunnelId]:
        """Tunnels that are about to go away."""
        return frozenset(tunnel for tunnel, touch in self.touches.items() if touch.wanted is None)

    def unproven(self) -> dict[TunnelId, str]:
        """Tunnels that were changed and are not proven, and why."""
        return {tunnel: touch.problem for tunnel, touch in self.touches.items() if touch.problem}

    def no_renewal(self, tunnels: Iterable[TunnelId]) -> frozenset[TunnelId]:
        """Those of `tunnels` whose IKE_SA must not be replaced now.

        An XFRM interface sends by one device: a new IKE_SA by another one comes after it was made anew. And where a
        tunnel of a bundle is not proven, no other one is touched.
        """
        stopped = {tunnel.peer for tunnel in self.unproven()}
        return self.waiting() | {each for each in tunnels if each.peer in stopped and each not in self.touches}


def plan_waves(
    desired: Desired,
    actual: Actual,
    before: Waves,
    probes: Mapping[TunnelId, ProbeState],
    *,
    renewing: frozenset[TunnelId],
    now: Seconds,
) -> Waves:
    """Decide whose turn it is.

    Args:
        desired: what should be.
        actual: this pass's snapshot; without a kernel nothing changes.
        before: what the last pass returned.
        probes: what the prober says.
        renewing: tunnels whose IKE_SA is being replaced.
        now: monotonic seconds.
    """
    if actual.kernel is None:
        return before
    found = {entry.tunnel: entry for entry in actual.kernel.objects.values() if isinstance(entry, XfrmInterface)}
    wanted = {entry.tunnel: entry for entry in desired.kernel.values() if isinstance(entry, XfrmInterface)}
    grouped = actual.grouped_tunnels()
    touches: dict[TunnelId, Touch] = {}
    due: set[TunnelId] = set()
    unsure: set[str] = set()
    for tunnel, interface in found.items():
        touch, probe = before.touches.get(tunnel), probes.get(tunnel, ProbeState())
        if tunnel not in wanted:
            in_use = tunnel in grouped or any(sa.live for sa in actual.sas_of(tunnel))
            if touch is not None or in_use:
                touches[tunnel] = _leave(touch, now)
        elif touch is not None:
            tended = _tend(touch, interface, wanted[tunnel], probe, now)
            touches |= {} if tended is None else {tunnel: tended}
        elif tunnel in grouped and probe.verdict is not Verdict.DOWN and _differs(interface, wanted[tunnel]):
            due.add(tunnel)
        elif probe.verdict in _ALIVE and not probe.fits and not probe.reflector_silent:
            # as wanted, but no packet of that size came back: it may be of a wave that we have forgotten
            unsure.add(tunnel.peer)
    ready = {
        tunnel for tunnel in due if probes.get(tunnel, ProbeState()).verdict in _ALIVE and tunnel.peer not in unsure
    }
    for tunnel in _next(ready, wanted, touches, renewing):
        touches[tunnel] = Touch(since=now, wanted=wanted[tunnel])
    return Waves(touches=touches, due=frozenset(due) - touches.keys())


def hold_back(actions: Iterable[Action], waves: Waves, desired: Desired, actual: Actual) -> tuple[Action, ...]:
    """A plan without what must wait: for its turn, for its traffic to go, or for IKE_SAs that need it."""
    waiting = waves.waiting()
    leaving = bool(waiting & waves.leaving())
    needed = _needed_underlay(desired, actual)
    return tuple(
        action
        for action in actions
        if not (_changes(action) & waiting or (leaving and action.step is Step.GUARD_NARROW) or needed(action))
    )


def next_turn(waves: Waves, now: Seconds) -> Seconds | None:
    """When a pass must run for a timer's sake; None when only an event can change something."""
    times = [touch.since + LEAD if touch.acted is None else touch.acted + PROOF for touch in waves.touches.values()]
    return Seconds(max(min(times), now + 0.05)) if times and any(time > now for time in times) else None


def _leave(touch: Touch | None, now: Seconds) -> Touch:
    """One that goes away: as soon as the peer has had time to leave it."""
    touch = Touch(since=now) if touch is None or touch.wanted is not None else touch
    return replace(touch, acted=now) if touch.acted is None and now >= touch.since + LEAD else touch


def _tend(touch: Touch, found: XfrmInterface, wanted: XfrmInterface, probe: ProbeState, now: Seconds) -> Touch | None:
    """One that stays: None once it is as wanted, and proven if it was changed."""
    as_wanted = not _differs(found, wanted)
    if touch.acted is None:
        if as_wanted:
            return None
        return replace(touch, wanted=wanted, acted=now if now >= touch.since + LEAD else None)
    if touch.wanted is None or _differs(touch.wanted, wanted):
        # changed again, or taken back: it is free of traffic already
        return Touch(since=touch.since, wanted=wanted, acted=now)
    if as_wanted and probe.verdict in _ALIVE and probe.mtu == wanted.mtu and probe.fits:
        return None
    return replace(touch, problem=_judge(touch.acted, wanted, probe, now))


def _judge(acted: Seconds, wanted: XfrmInterface, probe: ProbeState, now: Seconds) -> str:
    """Why it is not proven, "" while there is hope."""
    if probe.mtu == wanted.mtu and probe.fits is False:
        return f"packets of {wanted.mtu} bytes do not come through, smaller ones do"
    if now < acted + PROOF:
        return ""
    return f"no probe of {wanted.mtu} bytes has come back for {PROOF:.0f} s"


def _next(
    ready: Container[TunnelId],
    wanted: Iterable[TunnelId],
    touches: Iterable[TunnelId],
    renewing: frozenset[TunnelId],
) -> Iterator[TunnelId]:
    """Whose traffic is asked to go now: within their bundle's half, once all of the wave before are proven or gone."""
    touched = {tunnel.peer for tunnel in touches}
    for peer, members in bundles(wanted).items():
        if peer in touched:
            continue
        room = at_once(members) - sum(tunnel in renewing for tunnel in members)
        candidates = sorted(tunnel for tunnel in members if tunnel in ready and tunnel not in renewing)
        yield from candidates[: max(0, room)]


def _differs(found: XfrmInterface, wanted: XfrmInterface) -> bool:
    """In what a packet would notice; not in the alias or in being up."""
    return (found.if_id, found.underlay, found.mtu, frozenset(found.addresses)) != (
        wanted.if_id,
        wanted.underlay,
        wanted.mtu,
        frozenset(wanted.addresses),
    )


def _changes(action: Action) -> frozenset[TunnelId]:
    """The tunnel that an action changes or takes down, if it does."""
    match action.operation:
        case EnsureObject(XfrmInterface(tunnel=tunnel)):
            return frozenset({tunnel})
        case Terminate(connection, _, _) if action.step in _TAKEN_DOWN and action.tunnel is None:
            named = TunnelId.from_connection(connection)
            return frozenset({named}) if named is not None else frozenset()
        case _ if action.step in _TAKEN_DOWN and action.tunnel is not None:
            return frozenset({action.tunnel})
    return frozenset()


def _needed_underlay(desired: Desired, actual: Actual) -> _Needed:
    """What live IKE_SAs need of the underlay: an address that has moved to another uplink is at home there."""
    if actual.charon is None:
        return _Needed(None, frozenset())
    at_home = {str(entry.source) for entry in desired.kernel.values() if isinstance(entry, SourceRule)}
    used = {str(sa.local_address) for sa in actual.charon.sas if sa.live} - at_home
    rules = [] if actual.kernel is None else [e for e in actual.kernel.objects.values() if isinstance(e, SourceRule)]
    return _Needed(frozenset(used), frozenset(rule.table for rule in rules if str(rule.source) in used))


@dataclass(frozen=True, slots=True)
class _Needed:
    """Says of an action whether it takes away what live IKE_SAs need; all of it counts while charon cannot be asked."""

    addresses: frozenset[str] | None
    tables: frozenset[int]

    def __call__(self, action: Action) -> bool:
        match action.operation:
            case RemoveObject(SourceRule(source=source)):
                return self.addresses is None or str(source) in self.addresses
            case RemoveObject(UnderlayRoute(table=table)):
                return self.addresses is None or table in self.tables
        return False
