"""When a live IKE_SA is replaced because its connection's configuration changed: the one make-before-break primitive.

charon never applies a change to an IKE_SA that lives: neither a rekey nor a reauthentication does (D1). So the end that
initiates begins another one with the new configuration, waits until packets have come out of it, and only then ends
the old one. Before it begins it asks the peer, in its probes, to send nothing else into the tunnel for that while.
Never more than half of a bundle's tunnels are renewed at a time, and when one fails no other is begun: the old IKE_SAs
carry on, and it is tried again with growing pauses until the peer is ready or the change is taken back.

Pure: snapshots and `now` in, actions and the next memory out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ikeorch.core.charon_state import CharonState, Connection, IkeSa
from ikeorch.core.desired import Desired
from ikeorch.core.establish import CONNECT_TIMEOUT, retry_delay
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Action, Step, begin_sa, end_sa
from ikeorch.core.units import Seconds

APPEAR = Seconds(1.0)
"""charon queues `initiate`; a successor that is not there after this was refused at once."""
PROOF = Seconds(10.0)
"""From its beginning until packets must have come out of it; probes are sent ten times a second."""
FORMER_NAME = "former-name"
"""Stands for the digest of an IKE_SA that was established when its tunnel had another name."""
LEAD = Seconds(2.5)
"""The peer is asked this long before to leave the tunnel out of its groups: a responder sends with its new SA some
milliseconds before the initiator can decrypt. Long enough for the tunnels that were spared before to be back there."""
ENDING = Seconds(5.0)
"""How long an old IKE_SA may take to go once its successor is proven."""
RETRY_FIRST = Seconds(2.0)
RETRY_CAP = Seconds(30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A successor that was begun.

    Attributes:
        since: monotonic seconds.
        old_ids: charon's numbers of the IKE_SAs that it replaces.
        old_children: the numbers of their CHILD_SAs; a rekeyed IKE_SA has another number, but keeps these.
    """

    since: Seconds
    old_ids: frozenset[int]
    old_children: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is remembered of one tunnel.

    Attributes:
        made_with: digest of the connection that its live IKE_SA was established with, "" without one.
        renewal: the successor under way.
        failures: successors in a row that came to nothing.
        not_before: monotonic seconds of the next attempt.
        announced: since when the peer is asked, in the probes, to send nothing else into the tunnel.
        moves: the successor runs between other addresses. The kernel's policy names these, so we send by the old SAs
            until they are gone, which the peer may be first to forget: we leave the tunnel out as well.
        ending: since when the old IKE_SAs are being ended.
    """

    made_with: str = ""
    announced: Seconds | None = None
    moves: bool = False
    ending: Seconds | None = None
    renewal: Renewal | None = None
    failures: int = 0
    not_before: Seconds = Seconds(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewals:
    """What one pass hands to the next, by tunnel."""

    standings: Mapping[TunnelId, Standing] = field(default_factory=dict)

    def busy(self) -> frozenset[TunnelId]:
        """Tunnels with a successor under way: their IKE_SAs are nobody else's to tend."""
        return frozenset(tunnel for tunnel, standing in self.standings.items() if standing.renewal is not None)

    def spared(self) -> frozenset[TunnelId]:
        """Tunnels that the peer is asked to spare."""
        return frozenset(
            tunnel
            for tunnel, standing in self.standings.items()
            if standing.announced is not None or standing.renewal is not None or standing.ending is not None
        )

    def renamed(self, changes: Mapping[str, str]) -> Renewals:
        """The same after peers have changed their names, the new ones by the old ones.

        A successor under way has a former name itself: another one is begun.
        """
        return Renewals(
            standings={
                TunnelId(changes.get(tunnel.peer, tunnel.peer), tunnel.index): replace(
                    standing, renewal=None, announced=None, ending=None
                )
                if tunnel.peer in changes
                else standing
                for tunnel, standing in self.standings.items()
            }
        )

    def moving(self) -> frozenset[TunnelId]:
        """Those of them that we leave out of our own groups too."""
        return frozenset(tunnel for tunnel in self.spared() if self.standings[tunnel].moves)

    def refused(self) -> dict[TunnelId, int]:
        """Tunnels whose successors came to nothing, and how many did."""
        return {tunnel: standing.failures for tunnel, standing in self.standings.items() if standing.failures}


def outstanding(desired: Desired, renewals: Renewals) -> frozenset[TunnelId]:
    """Tunnels of ours to initiate whose live IKE_SA still has an older configuration."""
    if desired.connections is None:
        return frozenset()
    return frozenset(
        tunnel
        for tunnel, standing in renewals.standings.items()
        if tunnel in desired.tunnels
        and desired.tunnels[tunnel].initiator
        and standing.made_with not in {"", digest(desired.connections[tunnel.connection])}
    )


def bundles(tunnels: Iterable[TunnelId]) -> dict[str, list[TunnelId]]:
    """Tunnels by their peer."""
    found: dict[str, list[TunnelId]] = {}
    for tunnel in tunnels:
        found.setdefault(tunnel.peer, []).append(tunnel)
    return found


def at_once(members: Sized) -> int:
    """How many of a bundle may be touched at a time: half of it, at least one."""
    return max(1, len(members) // 2)


@lru_cache(maxsize=4096)
def digest(connection: Connection) -> str:
    """What an IKE_SA was established with, in a few characters."""
    return hashlib.sha256(repr(connection).encode()).hexdigest()[:16]


def plan_renewals(
    desired: Desired,
    charon: CharonState,
    before: Renewals,
    *,
    touched: frozenset[TunnelId] = frozenset(),
    held: frozenset[TunnelId] = frozenset(),
    now: Seconds,
) -> tuple[tuple[Action, ...], Renewals]:
    """Decide which live IKE_SAs get a successor, and what becomes of those under way.

    Args:
        desired: what should be.
        charon: this pass's snapshot.
        before: what the last pass returned.
        touched: tunnels that are kept free of traffic for another change (`ikeorch.core.waves`); they count as under
            way, and may get a successor at once.
        held: tunnels that must not get one now.
        now: monotonic seconds.

    Returns:
        The actions, and what the next pass must know.
    """
    if desired.connections is None:
        return (), before
    by_connection = charon.by_connection()
    actions: list[Action] = []
    standings: dict[TunnelId, Standing] = {}
    for tunnel in desired.tunnels:
        wanted = digest(desired.connections[tunnel.connection])
        sas = by_connection.get(tunnel.connection, [])
        done, standings[tunnel] = _tend(tunnel, sas, before.standings.get(tunnel, Standing()), wanted, now)
        actions.extend(done)
    for tunnel in _next(desired, charon, by_connection, standings, touched=touched, held=held, now=now):
        announced = standings[tunnel].announced
        live = [sa for sa in by_connection[tunnel.connection] if sa.live]
        if announced is None or now < announced + LEAD:
            moves = any(_moves(sa, desired.connections[tunnel.connection]) for sa in live)
            since = now if announced is None else announced
            standings[tunnel] = replace(standings[tunnel], announced=since, moves=moves)
            continue
        standings[tunnel] = replace(standings[tunnel], renewal=_begin(live, now), announced=None)
        failures = standings[tunnel].failures
        again = f", attempt {failures + 1}" if failures else ""
        reason = f"its connection changed; the old IKE_SA carries until this one does{again}"
        actions.append(begin_sa(tunnel, reason))
    return tuple(actions), Renewals(standings=standings)


def next_renewal(renewals: Renewals, now: Seconds) -> Seconds | None:
    """When a pass must run for a timer's sake; None when only an event can change something."""
    times: list[float] = []
    for standing in renewals.standings.values():
        if standing.renewal is not None:
            times.append(now + 0.5)
        elif standing.announced is not None:
            times.append(max(standing.announced + LEAD, now + 0.05))
        elif standing.ending is not None:
            times.append(now + 0.5)
        elif standing.failures:
            times.append(max(standing.not_before, now + 0.05))
    return Seconds(min(times)) if times else None


def _begin(live: Iterable[IkeSa], now: Seconds) -> Renewal:
    known = list(live)
    return Renewal(
        since=now,
        old_ids=frozenset(sa.unique_id for sa in known),
        old_children=frozenset(child.unique_id for sa in known for child in sa.children),
    )


def _tend(
    tunnel: TunnelId, sas: list[IkeSa], standing: Standing, wanted: str, now: Seconds
) -> tuple[list[Action], Standing]:
    """Follow one tunnel; no successor is begun here."""
    live = [sa for sa in sas if sa.live]
    if not live:
        # what is established next is established with what is loaded now
        return [], Standing()
    if not standing.made_with:
        # nobody remembers what it was established with, but a former name is another configuration for certain
        return [], replace(standing, made_with=FORMER_NAME if any(sa.former for sa in live) else wanted)
    if standing.made_with == wanted:
        if standing.ending is not None and len(live) > 1 and now < standing.ending + ENDING:
            return [], standing
        ends = _give_up(tunnel, _successors(sas, standing.renewal), "the change was taken back")
        return ends, Standing(made_with=wanted)
    if standing.renewal is None:
        return [], standing
    successors = _successors(sas, standing.renewal)
    if any(sa.live and _proven(sa) for sa in successors):
        old = [sa for sa in live if sa not in successors]
        ends = [end_sa(sa, "packets come out of its successor", tunnel=tunnel) for sa in old]
        return ends, Standing(made_with=wanted, moves=standing.moves, ending=now)
    waited = now - standing.renewal.since
    missing = not successors and waited >= APPEAR
    silent = waited >= CONNECT_TIMEOUT and not any(sa.live for sa in successors)
    if not missing and not silent and waited < PROOF:
        return [], standing
    failures = standing.failures + 1
    pause = retry_delay(failures, 0.0, first=RETRY_FIRST, cap=RETRY_CAP)
    reason = "the successor came to nothing; the old IKE_SA carries on"
    return _give_up(tunnel, successors, reason), replace(
        standing, renewal=None, failures=failures, not_before=Seconds(now + pause)
    )


def _next(
    desired: Desired,
    charon: CharonState,
    by_connection: Mapping[str, list[IkeSa]],
    standings: Mapping[TunnelId, Standing],
    *,
    touched: frozenset[TunnelId],
    held: frozenset[TunnelId],
    now: Seconds,
) -> list[TunnelId]:
    """Whose successor is begun now: ours to initiate, loaded, within its bundle's half, and nobody's failure first."""
    assert desired.connections is not None
    chosen: list[TunnelId] = []
    for members in bundles(desired.tunnels).values():
        busy = (standings[tunnel].renewal or standings[tunnel].ending or tunnel in touched for tunnel in members)
        under_way = sum(map(bool, busy))
        room = at_once(members) - under_way
        # whoever was announced goes first
        members.sort(key=lambda tunnel: (standings[tunnel].announced is None, tunnel))
        failed = [tunnel for tunnel in members if standings[tunnel].failures]
        for tunnel in failed or members:
            standing, connection = standings[tunnel], desired.connections[tunnel.connection]
            due = (
                standing.made_with not in {"", digest(connection)}
                and standing.renewal is None
                and now >= standing.not_before
                and desired.tunnels[tunnel].initiator
                and charon.loaded.get(tunnel.connection) == connection
                and any(sa.live and sa.forwards for sa in by_connection.get(tunnel.connection, ()))
                and tunnel not in held
            )
            if due and (room > 0 or tunnel in touched):
                chosen.append(tunnel)
                room -= tunnel not in touched
    return chosen


def _successors(sas: Iterable[IkeSa], renewal: Renewal | None) -> list[IkeSa]:
    """What was begun since; not an old IKE_SA that got another number by its rekey."""
    if renewal is None:
        return []
    return [
        sa
        for sa in sas
        if sa.unique_id not in renewal.old_ids
        and (sa.live or sa.connecting)
        and not any(child.unique_id in renewal.old_children for child in sa.children)
    ]


def _proven(sa: IkeSa) -> bool:
    """Packets have come out of it: probes and what else the peer sends."""
    return any(child.forwards and child.packets_in > 0 for child in sa.children)


def _moves(sa: IkeSa, connection: Connection) -> bool:
    """Whether the IKE_SA runs between other addresses than a new one will."""
    return (sa.local_address, sa.remote_address) != (connection.local_address, connection.remote_address)


def _give_up(tunnel: TunnelId, sas: Iterable[IkeSa], reason: str) -> list[Action]:
    return [end_sa(sa, reason, tunnel=tunnel, step=Step.ABANDON) for sa in sas]
