"""What is remembered of refusals, and the conditions that follow from them.

A refusal is an event, a condition a state: it is raised by the event and holds until a tunnel that it concerns has got
a new IKE_SA that forwards, or until `HOLD` has passed without another. Addresses of nobody that is configured share one
condition, and only `STRANGERS` of them are remembered: anybody can send from as many as he likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ikeorch.core.conditions import Code, Condition
from ikeorch.core.desired import Desired, TunnelPlan
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.refusal import Cause, Refusal
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.status import TunnelState, TunnelStatus
from ikeorch.core.units import Seconds

HOLD = Seconds(90.0)
"""Three times the longest pause between two attempts of ours (`ikeorch.core.renew.RETRY_CAP`)."""
SETTLED_AGE = Seconds(2.0)
"""Age from which a new IKE_SA counts although no packet has come through it; a responder takes one for established
before the initiator has looked at its certificate."""
STRANGERS = 8

CODES = {
    Cause.NOT_CONFIGURED: Code.REFUSED_UNKNOWN,
    Cause.PROPOSAL: Code.REFUSED_PROPOSAL,
    Cause.IDENTITY: Code.REFUSED_IDENTITY,
    Cause.EXPIRED: Code.REFUSED_EXPIRED,
    Cause.UNKNOWN_CA: Code.REFUSED_UNKNOWN_CA,
    Cause.CERTIFICATE: Code.REFUSED_CERTIFICATE,
    Cause.SELECTORS: Code.REFUSED_SELECTORS,
    Cause.BY_PEER: Code.REFUSED_BY_PEER,
}
Key = tuple[Cause, TunnelId | IPAddress]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """The last refusal of its kind.

    Attributes:
        refusal: itself.
        at: monotonic seconds.
        forwarding: charon's ids of the IKE_SAs that forwarded before it.
    """

    refusal: Refusal
    at: Seconds
    forwarding: frozenset[int]


class _Places(Generic[T]):
    """Values by their tunnel and by its peer's address; with a thousand tunnels there may be as many refusals.

    Args:
        entries: each tunnel's plan and the value that stands for it.
    """

    def __init__(self, entries: Iterable[tuple[TunnelPlan, T]]) -> None:
        self._by_tunnel: dict[TunnelId, T] = {}
        self.by_address: dict[IPAddress | None, list[tuple[IPAddress, T]]] = {}
        for plan, value in entries:
            self._by_tunnel[plan.tunnel] = value
            self.by_address.setdefault(plan.path.remote, []).append((plan.path.local, value))

    def concerned(self, refusal: Refusal) -> list[T]:
        """What the tunnel of a refusal stands for, or what all tunnels between its addresses do."""
        if refusal.tunnel is not None:
            value = self._by_tunnel.get(refusal.tunnel)
            return [] if value is None else [value]
        near = self.by_address.get(refusal.remote, ())
        return [value for local, value in near if refusal.local in {None, local}]


class Refusals:
    """All refusals that still say something."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._strangers: dict[IPAddress, _Entry] = {}
        self._forwarding: frozenset[int] = frozenset()
        self._peers: frozenset[IPAddress] = frozenset()
        self._too_young = False

    def add(self, refusal: Refusal, now: Seconds) -> bool:
        """Remember a refusal.

        Args:
            refusal: as the adapter read it.
            now: monotonic seconds.

        Returns:
            Whether it says something new, so that a pass is worth it.
        """
        place = refusal.tunnel or refusal.remote
        if place is None:
            return False
        if isinstance(place, TunnelId) or place in self._peers:
            key = (refusal.cause, place)
            before = self._entries.get(key)
            self._entries[key] = _Entry(refusal=refusal, at=now, forwarding=self._forwarding)
            return before is None or _differs(before.refusal, refusal)
        known = self._strangers.pop(place, None)
        self._strangers[place] = _Entry(refusal=refusal, at=now, forwarding=self._forwarding)
        full = len(self._strangers) > STRANGERS
        if full:
            del self._strangers[next(iter(self._strangers))]
        return known is None and not full

    def settle(self, tunnels: Iterable[TunnelStatus], now: Seconds) -> None:
        """Forget what is over: a tunnel that it concerns was established since, or it is too long ago.

        Args:
            tunnels: all configured ones, as this pass found them.
            now: monotonic seconds.
        """
        tunnels = tuple(tunnels)
        places = _Places((status.plan, status) for status in tunnels)
        self._peers = frozenset(status.plan.path.remote for status in tunnels)
        self._too_young = False
        for key in [key for key, entry in self._entries.items() if self._is_over(entry, places, now)]:
            del self._entries[key]
        for address, entry in list(self._strangers.items()):
            if address in self._peers or now - entry.at >= HOLD:
                del self._strangers[address]
        self._forwarding = frozenset(each.ike.unique_id for each in tunnels if each.ike and each.child)

    def forget(self, before: GatewaySpec, after: GatewaySpec) -> None:
        """Forget what was said of peers that are configured otherwise now: it was about what is no longer asked for."""
        unchanged = _same_gateway(before, after)
        same = {peer.name for peer in after.peers if unchanged and before.peer(peer.name) == peer}
        for key in list(self._entries):
            _, place = key
            names = {place.peer} if isinstance(place, TunnelId) else _peers_at(place, before)
            if not names & same:
                del self._entries[key]

    def next_change(self, now: Seconds) -> Seconds | None:
        """When something may be over by time alone, monotonic; None when nothing is remembered."""
        times = [entry.at + HOLD for entry in (*self._entries.values(), *self._strangers.values())]
        if self._too_young:
            times.append(now + SETTLED_AGE)
        return Seconds(min(times)) if times else None

    def _is_over(self, entry: _Entry, places: _Places[TunnelStatus], now: Seconds) -> bool:
        if now - entry.at >= HOLD:
            return True
        for status in places.concerned(entry.refusal):
            if status.ike is None or status.child is None or status.ike.unique_id in entry.forwarding:
                continue
            if status.ike.age >= SETTLED_AGE or (status.state is TunnelState.CARRYING and not entry.refusal.late):
                return True
            self._too_young = True
        return False

    def conditions(self, desired: Desired) -> list[Condition]:
        """One condition for each, and one for all strangers together."""
        found = []
        strangers = list(self._strangers.values())
        places = _Places((plan, plan) for plan in desired.tunnels.values()) if self._entries else _Places(())
        for entry in self._entries.values():
            condition = _condition(entry.refusal, places, desired)
            if condition is not None:
                found.append(condition)
        if strangers:
            found.append(_strangers_condition(strangers))
        return found


def _differs(before: Refusal, after: Refusal) -> bool:
    """Whether a reader would learn something; charon's number of the IKE_SA is none of it."""
    return replace(before, ike_id=after.ike_id) != after


def _condition(refusal: Refusal, places: _Places[TunnelPlan], desired: Desired) -> Condition | None:
    """What a user is told; None when the configuration has changed so that it says nothing any more."""
    plans = places.concerned(refusal)
    if refusal.cause is Cause.NOT_CONFIGURED and plans:
        return None
    near = plans or [plan for _, plan in places.by_address.get(refusal.remote, ())]
    if not near:
        return None
    subject = str(near[0].tunnel) if len(plans) == 1 else near[0].tunnel.peer
    return Condition(code=CODES[refusal.cause], subject=subject, message=_message(refusal, near, desired))


def _message(refusal: Refusal, plans: list[TunnelPlan], desired: Desired) -> str:
    who = str(refusal.remote or plans[0].path.remote)
    match refusal.cause:
        case Cause.NOT_CONFIGURED:
            return f"{who} asks at {refusal.local}; no tunnel is configured between these addresses"
        case Cause.PROPOSAL:
            return f"{who} offers {refusal.offered or '?'}; configured here is {refusal.configured or '?'}"
        case Cause.IDENTITY:
            return f"{who} {_identities(refusal, plans)}"
        case Cause.EXPIRED:
            return f"the certificate of {_named(refusal, plans)} is {refusal.offered or 'not valid now'}"
        case Cause.UNKNOWN_CA:
            issuer = f"is from {refusal.offered}" if refusal.offered else "is from an unknown CA"
            ours = f"ours is {refusal.configured}" if refusal.configured else "which is not ours"
            return f"the certificate of {_named(refusal, plans)} {issuer}, {ours}"
        case Cause.CERTIFICATE:
            return f"{_named(refusal, plans)}: {refusal.offered or 'no certificate that it sent names this identity'}"
        case Cause.SELECTORS:
            return (
                f"{who} offers the traffic selectors {refusal.offered or '?'}; configured here are 0.0.0.0/0 and ::/0"
            )
        case Cause.BY_PEER:
            return f"{who} answered {refusal.notify}: {_meaning(refusal, plans[0], desired)}"


def _identities(refusal: Refusal, plans: list[TunnelPlan]) -> str:
    """Said and configured, side by side."""
    if refusal.offered:
        return f"is not who it should be: {refusal.offered}"
    shown = [f"{plan.remote_id} asking for {plan.local_id}" for plan in plans]
    more = f" and {len(shown) - 2} more" if len(shown) > 2 else ""
    asked = refusal.local_id or "no identity in particular"
    says = f"says that it is {refusal.remote_id or '?'} and asks for {asked}"
    return f"{says}; configured here is {', '.join(shown[:2])}{more}"


def _named(refusal: Refusal, plans: list[TunnelPlan]) -> str:
    return refusal.remote_id or plans[0].remote_id


def _meaning(refusal: Refusal, plan: TunnelPlan, desired: Desired) -> str:
    """What a NOTIFY may mean (RFC 7296, 3.10.1), with what this end had offered."""
    connection = (desired.connections or {}).get(plan.tunnel.connection)
    ike = ", ".join(connection.ike_proposals) if connection else plan.suite
    esp = ", ".join(connection.esp_proposals) if connection else plan.suite
    match refusal.notify:
        case "NO_PROPOSAL_CHOSEN" if not refusal.authenticating:
            return f"it has no IKE proposal in common with {ike}, or nothing configured for {plan.path.local}"
        case "NO_PROPOSAL_CHOSEN":
            return f"it has no ESP proposal in common with {esp}"
        case "AUTHENTICATION_FAILED":
            return f"it does not take our identity {plan.local_id}, the one that we ask for, or our certificate"
        case _:
            return "it refused the SA"


def _strangers_condition(entries: list[_Entry]) -> Condition:
    shown = [f"{entry.refusal.remote} at {entry.refusal.local or 'us'}" for entry in entries[-3:]]
    more = f" and {len(entries) - 3} more addresses" if len(entries) > 3 else ""
    message = f"{', '.join(shown)}{more} began an IKE_SA, and no tunnel is configured between these addresses"
    return Condition(code=Code.REFUSED_UNKNOWN, subject="", message=message)


def _same_gateway(before: GatewaySpec, after: GatewaySpec) -> bool:
    """Whether only peers differ, as far as a peer can see."""
    return replace(before, peers=()) == replace(after, peers=())


def _peers_at(address: IPAddress, spec: GatewaySpec) -> set[str]:
    """Names of the peers with an uplink of this address."""
    return {peer.name for peer in spec.peers for uplink in peer.uplinks if address in uplink.addresses}
