"""What works but is probably not meant; the rules that refuse stand in `ikeorch.config.check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ikeorch.config.overlap import overlap_finder
from ikeorch.config.problems import Finding, Location
from ikeorch.core.kernel_state import IPNetwork
from ikeorch.core.paths import UnderlayPath, underlay_paths
from ikeorch.core.spec import GatewaySpec, PeerSpec

_NAMED = 4
"""How many things of a kind a message names."""


def find_warnings(spec: GatewaySpec) -> Iterator[Finding]:
    """What works but is probably not meant."""
    find_own = overlap_finder(spec.prefixes)
    for position, peer in enumerate(spec.peers):
        yield from _shared_pairs(spec, position, peer)
        yield from _unpaired_uplinks(spec, position, peer)
        yield from _own_sources(find_own, position, peer)

    families = {neighbor.address.version for neighbor in spec.fabric.neighbors}
    for position, peer in enumerate(spec.peers):
        for at, prefix in enumerate(peer.prefixes):
            if families and prefix.version not in families:
                reason = f"no fabric neighbour is told of {prefix}: none has an IPv{prefix.version} address"
                yield Finding(("peers", position, "prefixes", at), reason, "name the leaf's address of that family too")


def _shared_pairs(spec: GatewaySpec, position: int, peer: PeerSpec) -> Iterator[Finding]:
    """Tunnels with one pair of outer addresses look like one flow to network cards and providers."""
    paths = underlay_paths(spec, peer)
    users: dict[UnderlayPath, list[int]] = {}
    for index, path in enumerate(paths):
        users.setdefault(path, []).append(index)
    shared = [f"{_numbers(tunnels)} on {path}" for path, tunnels in users.items() if len(tunnels) > 1]
    if shared:
        more = f", and {len(shared) - _NAMED} pairs more" if len(shared) > _NAMED else ""
        reason = f"{len(paths)} tunnels share {len(users)} address pairs ({', '.join(shared[:_NAMED])}{more})"
        hint = "network cards and providers hash by them: give the uplinks more addresses"
        yield Finding(("peers", position, "tunnels", "count"), reason, hint)


def _numbers(tunnels: list[int]) -> str:
    """``0 and 2``; a long list is cut."""
    first = [str(index) for index in tunnels[:_NAMED]]
    if len(tunnels) > _NAMED:
        return f"{', '.join(first)} and {len(tunnels) - _NAMED} more"
    return f"{', '.join(first[:-1])} and {first[-1]}"


def _unpaired_uplinks(spec: GatewaySpec, position: int, peer: PeerSpec) -> Iterator[Finding]:
    """An uplink without a counterpart carries nothing, which a misspelt name would hide."""
    used = {path.uplink for path in underlay_paths(spec, peer)}
    ours = {uplink.name: {address.version for address in uplink.addresses} for uplink in spec.uplinks}
    for at, uplink in enumerate(peer.uplinks):
        families = {address.version for address in uplink.addresses}
        location: Location = ("peers", position, "uplinks", at)
        if used and uplink.name not in ours:
            reason = f"the uplink {uplink.name!r} pairs with none of ours and carries nothing"
            yield Finding((*location, "name"), reason, f"ours are {', '.join(sorted(ours))}")
        elif used and not families & ours[uplink.name]:
            reason = f"the uplink {uplink.name!r} has no address of a family that ours of that name has"
            yield Finding((*location, "addresses"), reason, "it carries nothing until both ends have one family")


def _own_sources(find_own: Callable[[IPNetwork], IPNetwork | None], position: int, peer: PeerSpec) -> Iterator[Finding]:
    """Who may deliver our own addresses may speak in our hosts' name."""
    for at, network in enumerate(peer.accept):
        own = find_own(network)
        if own is not None:
            reason = f"the peer may send packets that claim to come from our own {own}"
            yield Finding(("peers", position, "accept", at), reason, "write only what lies behind the peer")
