"""A peer that has another name now: recognised by its identity, which did not change.

The name is our word for it, and what its probes carry; the identity is what its certificate proves. So a peer that
goes and another one that comes with the same identity are one and the same, and what belonged to the old name, numbers
above all, belongs to the new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ikeorch.core.allocate import Kind, Wanted, allocate_missing, wanted_numbers
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import NAME_PATTERN, TunnelId
from ikeorch.core.spec import GatewaySpec

_TUNNEL = re.compile(rf"(?P<peer>{NAME_PATTERN})(?P<rest>/.*)")
_GROUP = re.compile(r"(?P<head>group \S+ via )(?P<peers>\S+)(?P<rest> .*)")


def peer_names(spec: GatewaySpec) -> dict[str, str]:
    """The peers' names by identity; an identity that two peers share says nothing."""
    identities = [peer.identity for peer in spec.peers]
    return {peer.identity: peer.name for peer in spec.peers if identities.count(peer.identity) == 1}


def find_renames(before: GatewaySpec, after: GatewaySpec) -> dict[str, str]:
    """Which peers have another name, by the old one."""
    old, new = peer_names(before), peer_names(after)
    return {old[identity]: new[identity] for identity in old.keys() & new.keys() if old[identity] != new[identity]}


def give_numbers(
    numbers: Mapping[Wanted, int], names: Mapping[str, str], spec: GatewaySpec
) -> tuple[dict[Wanted, int], dict[str, str]]:
    """All numbers that a configuration needs, moved to the names that peers have in it, and given where missing.

    Args:
        numbers: all numbers given so far.
        names: the peers' names that they belong to, by identity.
        spec: the configuration.

    Returns:
        All numbers, and the names that they belong to now.

    Raises:
        ExhaustedError: a kind has no number left.
    """
    now = peer_names(spec)
    changes = name_changes(names, now)
    moved = {renamed_number(wanted, changes): number for wanted, number in numbers.items()} if changes else numbers
    # whoever is not configured is remembered under the name that its numbers have, unless another has taken it
    others = {identity: changes.get(name, name) for identity, name in names.items() if identity not in now}
    known = now | {identity: name for identity, name in others.items() if name not in now.values()}
    return {**moved, **allocate_missing(moved, wanted_numbers(spec))}, known


def heard_names(spec: GatewaySpec, states: Mapping[TunnelId, ProbeState], before: Mapping[str, str]) -> dict[str, str]:
    """By identity, what each peer calls itself where that is another name than ours for it.

    Args:
        spec: the configuration.
        states: what the prober says now; a peer of whom no tunnel is up is remembered as before.
        before: what the last pass returned.
    """
    heard: dict[str, str] = {}
    for identity, name in peer_names(spec).items():
        up = [state for tunnel, state in states.items() if tunnel.peer == name and state.verdict is Verdict.UP]
        other = next((state.calls_itself for state in up if state.calls_itself), "")
        if not up and before.get(identity) != name:
            other = before.get(identity, "")
        if other:
            heard[identity] = other
    return heard


def follow(name: str, renames: Mapping[str, str]) -> str:
    """A peer's name afterwards; "" where another peer has taken it."""
    return renames.get(name, "" if name in renames.values() else name)


def name_changes(kept: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Which names what is kept must be moved to, so that each identity finds its own.

    What is kept under a name that another peer takes moves to one that is free now: nothing is lost, and no two
    things ever have one name.

    Args:
        kept: the names by identity, as things are kept.
        now: the names by identity, as configured.

    Returns:
        New name by old name; a permutation.
    """
    moves = {kept[identity]: now[identity] for identity in kept.keys() & now.keys() if kept[identity] != now[identity]}
    displaced, freed = sorted(set(moves.values()) - moves.keys()), sorted(moves.keys() - set(moves.values()))
    return moves | dict(zip(displaced, freed, strict=True))


def renamed_number(wanted: Wanted, changes: Mapping[str, str]) -> Wanted:
    """What a number is for after peers have changed their names."""
    kind, name = wanted
    if kind is Kind.TABLE:
        return wanted
    if (tunnel := _TUNNEL.fullmatch(name)) is not None:
        return kind, changes.get(tunnel["peer"], tunnel["peer"]) + tunnel["rest"]
    if (group := _GROUP.fullmatch(name)) is not None:
        peers = sorted(changes.get(peer, peer) for peer in group["peers"].split(","))
        return kind, group["head"] + ",".join(peers) + group["rest"]
    return wanted
