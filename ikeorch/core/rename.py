"""A peer that has another name now: recognised by its identity, which did not change.

The name is our word for it, and what its probes carry; the identity is what its certificate proves. So a peer that
goes and another one that comes with the same identity are one and the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from ikeorch.core.spec import GatewaySpec


def find_renames(before: GatewaySpec, after: GatewaySpec) -> dict[str, str]:
    """Which peers have another name, by the old one.

    An identity that two peers of one side share says nothing, and a name that is known before and after has not moved.
    """
    gone, come = _by_identity(before, after), _by_identity(after, before)
    return {gone[identity]: come[identity] for identity in gone.keys() & come.keys()}


def _by_identity(spec: GatewaySpec, other: GatewaySpec) -> Mapping[str, str]:
    """The peers that only `spec` has by name, by their identity; without identities that are not unique in it."""
    identities = [peer.identity for peer in spec.peers]
    return {
        peer.identity: peer.name
        for peer in spec.peers
        if other.peer(peer.name) is None and identities.count(peer.identity) == 1
    }
