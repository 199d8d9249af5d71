"""Why a tunnel or a peer is in its state: the conditions that concern it, the nearest first.

A chain goes from the thing itself over what it stands on (uplink, peer, site) to the gateway. What is wrong elsewhere,
such as with another peer or the fabric, is no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ikeorch.core.conditions import Code, Condition, Kind
from ikeorch.core.status import TunnelState, TunnelStatus

_OF_THE_FABRIC = frozenset({Code.EXABGP_UNREACHABLE, Code.FABRIC_SESSION_DOWN, Code.FABRIC_REFUSED})


@dataclass(frozen=True, slots=True)
class Reason:
    """One link of a chain.

    Attributes:
        about: what the condition concerns, such as ``uplink isp1``.
        condition: itself.
    """

    about: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class Why:
    """Why something is in its state.

    Attributes:
        summary: in one sentence.
        because: the chain, the nearest first; empty where nothing is wrong.
    """

    summary: str
    because: tuple[Reason, ...]


def why_tunnel(status: TunnelStatus, conditions: Iterable[Condition], *, site: str, actions: Iterable[str] = ()) -> Why:
    """Why a tunnel is in its state.

    Args:
        status: the tunnel.
        conditions: all that hold.
        site: the peer's.
        actions: what was to be done for it and failed, as conditions name it.
    """
    summary = f"{status.plan.tunnel} is {status.state.value}: {status.reason}"
    return Why(summary, _chain((status,), conditions, site=site, actions=actions))


def why_peer(
    peer: str,
    tunnels: Sequence[TunnelStatus],
    conditions: Iterable[Condition],
    *,
    site: str,
    actions: Iterable[str] = (),
) -> Why:
    """Why the tunnels to a peer are in their states.

    Args:
        peer: its name.
        tunnels: all of its tunnels.
        conditions: all that hold.
        site: the peer's.
        actions: what was to be done for its tunnels and failed, as conditions name it.
    """
    carrying = sum(status.state is TunnelState.CARRYING for status in tunnels)
    summary = f"{carrying} of {len(tunnels)} tunnels to {peer} carry packets" if tunnels else f"{peer} has no tunnels"
    return Why(summary, _chain(tunnels, conditions, site=site, actions=actions, peer=peer))


def why_configuration(conditions: Iterable[Condition]) -> Why:
    """Why this configuration is in force, and not what an operator may have expected.

    Args:
        conditions: all that hold.
    """
    found = tuple(Reason("configuration", condition) for condition in conditions if condition.kind is Kind.CONFIG)
    return Why("this configuration is in force", found)


def _chain(
    tunnels: Sequence[TunnelStatus],
    conditions: Iterable[Condition],
    *,
    site: str,
    actions: Iterable[str],
    peer: str = "",
) -> tuple[Reason, ...]:
    places: dict[str, str] = {}
    for status in tunnels:
        places[str(status.plan.tunnel)] = f"tunnel {status.plan.tunnel}"
    places |= dict.fromkeys(actions, "action")
    for status in tunnels:
        places.setdefault(status.plan.path.interface, f"uplink {status.plan.path.uplink}")
    for name in (*(status.plan.tunnel.peer for status in tunnels), *([peer] if peer else [])):
        places.setdefault(name, f"peer {name}")
    places.setdefault(site, f"site {site}")
    places[""] = "gateway"
    order = {subject: position for position, subject in enumerate(places)}
    sound = bool(tunnels) and all(status.state is TunnelState.CARRYING for status in tunnels)
    found = [
        condition
        for condition in conditions
        if condition.subject in places
        and condition.code not in _OF_THE_FABRIC
        and not (sound and condition.code is Code.REFUSED_UNKNOWN)
    ]
    found.sort(key=lambda condition: (order[condition.subject], condition.code.value))
    return tuple(Reason(places[condition.subject], condition) for condition in found)
