"""Actions: what is to be done, to what, why, and at what price. A plan is an ordered list of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias, assert_never

from ikeorch.core.charon_state import Connection, IkeSa
from ikeorch.core.fabric import FabricWish
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import (
    Guard,
    KernelObject,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)


class Impact(Enum):
    """What an action costs the traffic (D1)."""

    NONE = "in place"
    NEXT_ESTABLISHMENT = "at the next re-establishment"
    REESTABLISH = "re-establishes one tunnel at a time"
    OUTAGE = "outage"


class Symbol(Enum):
    """How a plan marks an action."""

    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"
    RISK = "!"


class Step(IntEnum):
    """The order of a plan: make before break, and on the way down withdraw, next hop, SA, link.

    One step tells the fabric everything, after new routes stand and before old ones go. An IKE_SA that never carried
    anything is abandoned before its successor is begun.
    """

    SETTING = 0
    GUARD_WIDEN = 1
    UNDERLAY = 2
    LINK = 3
    LINK_SETTING = 4
    CREDENTIAL = 5
    CONNECTION = 6
    ABANDON = 7
    INITIATE = 8
    NEXT_HOP = 9
    GROUP = 10
    ROUTE = 11
    ANNOUNCE = 12
    ROUTE_REMOVE = 13
    GROUP_REMOVE = 14
    NEXT_HOP_REMOVE = 15
    CONNECTION_REMOVE = 16
    TERMINATE = 17
    LINK_REMOVE = 18
    UNDERLAY_REMOVE = 19
    GUARD_NARROW = 20


@dataclass(frozen=True, slots=True)
class EnsureObject:
    """Create the kernel object, or replace the version of it that is there."""

    target: KernelObject


@dataclass(frozen=True, slots=True)
class RemoveObject:
    """Remove a kernel object of ours."""

    target: KernelObject


@dataclass(frozen=True, slots=True)
class LoadAuthority:
    """Load the trust anchor into charon under a name."""

    name: str


@dataclass(frozen=True, slots=True)
class LoadKey:
    """Load the gateway's private key into charon; the daemon reads it from its file."""

    key_id: str


@dataclass(frozen=True, slots=True)
class LoadConnection:
    """Load or replace a connection; live SAs keep what they were established with."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class UnloadConnection:
    """Unload a connection of ours; live SAs stay."""

    name: str


@dataclass(frozen=True, slots=True)
class Initiate:
    """Start a new IKE_SA with its CHILD_SA."""

    tunnel: TunnelId


@dataclass(frozen=True, slots=True)
class Terminate:
    """End one IKE_SA by its number.

    Attributes:
        connection: whose it is.
        ike_id: charon's unique id.
        force: do not wait for the peer's answer.
    """

    connection: str
    ike_id: int
    force: bool


@dataclass(frozen=True, slots=True)
class Advertise:
    """Tell the fabric exactly this.

    Attributes:
        wish: to whom, and which routes.
        change: in a few words.
    """

    wish: FabricWish
    change: str


Operation: TypeAlias = (
    Advertise
    | EnsureObject
    | RemoveObject
    | LoadAuthority
    | LoadKey
    | LoadConnection
    | UnloadConnection
    | Initiate
    | Terminate
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One operation with its reason.

    Attributes:
        step: its place in the plan.
        operation: what to do.
        symbol: how a plan marks it.
        reason: why, for people.
        tunnel: whom it concerns, None for the gateway as a whole; a failure stops only that tunnel.
        impact: what it costs the traffic.
    """

    step: Step
    operation: Operation
    symbol: Symbol
    reason: str
    tunnel: TunnelId | None = None
    impact: Impact = Impact.NONE


def begin_sa(tunnel: TunnelId, reason: str) -> Action:
    """Begin an IKE_SA of a tunnel."""
    return Action(step=Step.INITIATE, operation=Initiate(tunnel), symbol=Symbol.ADD, reason=reason, tunnel=tunnel)


def end_sa(sa: IkeSa, reason: str, *, tunnel: TunnelId | None, step: Step = Step.TERMINATE) -> Action:
    """End an IKE_SA; one that is still being set up without waiting for the peer.

    Args:
        sa: which.
        reason: why, for people.
        tunnel: whose it is, None for one that is no longer configured.
        step: `Step.ABANDON` for one that carries nothing, whose end must not depend on its successor's beginning.
    """
    operation = Terminate(sa.connection, sa.unique_id, force=sa.connecting)
    return Action(step=step, operation=operation, symbol=Symbol.REMOVE, reason=reason, tunnel=tunnel)


def describe_operation(operation: Operation) -> str:
    """One line for people: what the operation acts on."""
    match operation:
        case Advertise(_, change):
            return f"BGP {change}"
        case EnsureObject(target) | RemoveObject(target):
            return describe_object(target)
        case LoadAuthority(name):
            return f"charon authority {name}"
        case LoadKey(key_id):
            return f"charon private key {key_id[:16]}"
        case LoadConnection(connection):
            return f"charon connection {connection.name}"
        case UnloadConnection(name):
            return f"charon connection {name}"
        case Initiate(tunnel):
            return f"IKE_SA of {tunnel}"
        case Terminate(connection, ike_id, _):
            return f"IKE_SA #{ike_id} of {connection}"
        case _:
            assert_never(operation)


def describe_object(target: KernelObject) -> str:
    """One line for people: a kernel object much as ip(8) writes it."""
    match target:
        case XfrmInterface():
            addresses = " ".join(str(address) for address in target.addresses)
            return (
                f"interface {target.name} xfrm dev {target.underlay} if_id {target.if_id} mtu {target.mtu} {addresses}"
            )
        case SourceRule():
            return f"rule from {target.source} lookup {target.table}"
        case UnderlayRoute():
            via = f" via {target.gateway}" if target.gateway else ""
            return f"route {target.destination}{via} dev {target.device} table {target.table}"
        case NextHop():
            return f"nexthop {target.id} IPv{target.family.value} dev {target.device}"
        case NextHopGroup():
            members = "/".join(f"{member.next_hop},{member.weight}" for member in target.members)
            kind = "resilient" if target.buckets else "hash-threshold"
            return f"nexthop group {target.id} {members} {kind}"
        case PrefixRoute(group=None):
            return f"route unreachable {target.destination} metric {target.metric}"
        case PrefixRoute():
            return f"route {target.destination} nhid {target.group} metric {target.metric}"
        case Sysctl():
            return f"sysctl {target.name}={target.value}"
        case Guard():
            return f"guard uplinks {','.join(target.uplinks)} with {len(target.tunnels)} tunnels"
        case _:
            assert_never(target)
