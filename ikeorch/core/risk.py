"""What a change would cost that a plan's make-before-break cannot save: each such thing has a name (`RiskName`).

Pure: the configuration in force, the new one and the plan between them in, named risks out. A change that is none
has no risk, whatever the world looks like.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_network

from ikeorch.core.allocate import offering_peers
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPNetwork, collapse_networks
from ikeorch.core.paths import all_tunnels, inner_addresses, tunnel_identities
from ikeorch.core.plan import Action, Impact, describe_operation
from ikeorch.core.rename import find_renames, follow
from ikeorch.core.risk_names import Risk, RiskName
from ikeorch.core.spec import GatewaySpec

MOST = 0.5
"""A larger share of a bundle's tunnels taken away at once must be accepted."""


def find_risks(before: GatewaySpec, after: GatewaySpec, plan: Iterable[Action]) -> tuple[Risk, ...]:
    """The risks of a change.

    Args:
        before: the configuration in force.
        after: the one that shall be in force.
        plan: what would be done.

    Returns:
        In the order of `RiskName`.
    """
    if before == after:
        return ()
    renames = find_renames(before, after)
    withdrawn = dict(_withdrawn(before, after, renames))
    pathless = {name for names in withdrawn.values() for name in names}
    found = [
        *(_withdrawal(prefix, names) for prefix, names in withdrawn.items()),
        *_outages(plan),
        *_most_tunnels(before, after, renames, pathless),
        *_identity(before, after),
        *_peer_identities(before, after),
        *_renumbered(before, after, renames),
        *_fabric(before, after),
        *_dropped(before, after, renames, [ip_network(prefix) for prefix in withdrawn]),
    ]
    return tuple(found)


def not_accepted(risks: Iterable[Risk], accepted: Collection[RiskName]) -> tuple[Risk, ...]:
    """The risks that nobody accepted."""
    return tuple(risk for risk in risks if risk.name not in accepted)


def _withdrawn(
    before: GatewaySpec, after: GatewaySpec, renames: Mapping[str, str]
) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Prefixes that no tunnel leads to afterwards which is there now, with the peers that offer them.

    A wider prefix, or all parts of it, do as well as the same one.
    """
    known = {TunnelId(follow(each.peer, renames), each.index) for each in all_tunnels(before)}
    stay = {tunnel.peer for tunnel in known.intersection(all_tunnels(after))}
    reached = [ip_network(text) for text, (_, names) in offering_peers(after).items() if stay.intersection(names)]
    for text, (_, names) in offering_peers(before).items():
        if not _within(ip_network(text), reached):
            yield text, names


def _within(network: IPNetwork, others: Iterable[IPNetwork]) -> bool:
    """Whether networks cover another one, alone or together."""
    joined = collapse_networks(others)
    return collapse_networks((*joined, network)) == joined


def _withdrawal(prefix: str, names: tuple[str, ...]) -> Risk:
    message = f"{prefix} (peer {', '.join(names)}) has no tunnel afterwards: its traffic is lost, the fabric hears it"
    return Risk(name=RiskName.WITHDRAW_LAST_PATH, subject=prefix, message=message)


def _outages(plan: Iterable[Action]) -> Iterable[Risk]:
    for action in plan:
        if action.impact is Impact.OUTAGE:
            subject = str(action.tunnel or "")
            message = f"{subject or 'the gateway'} is out meanwhile: {describe_operation(action.operation)}"
            yield Risk(name=RiskName.OUTAGE, subject=subject, message=f"{message} ({action.reason})")


def _most_tunnels(
    before: GatewaySpec, after: GatewaySpec, renames: Mapping[str, str], pathless: Collection[str]
) -> Iterable[Risk]:
    """Bundles that lose more than half at once; those whose prefixes lose their last path are told as that."""
    for peer in before.peers:
        known = after.peer(follow(peer.name, renames))
        gone = peer.tunnels.count - (known.tunnels.count if known else 0)
        if gone > MOST * peer.tunnels.count and peer.name not in pathless:
            message = f"{gone} of {peer.tunnels.count} tunnels to {peer.name} go at once"
            yield Risk(name=RiskName.MOST_TUNNELS, subject=peer.name, message=message)


def _identity(before: GatewaySpec, after: GatewaySpec) -> Iterable[Risk]:
    if before.identity != after.identity:
        message = (
            f"our identity changes from {before.identity} to {after.identity}: no peer that has not been told takes "
            f"another IKE_SA from us"
        )
        yield Risk(name=RiskName.CHANGE_IDENTITY, subject="", message=message)


def _peer_identities(before: GatewaySpec, after: GatewaySpec) -> Iterable[Risk]:
    """Of peers whose name stays; a peer whose identity stays has no other one."""
    for peer in before.peers:
        known = after.peer(peer.name)
        count = min(peer.tunnels.count, known.tunnels.count) if known else 0
        if known is not None and any(
            tunnel_identities(before, peer, index)[1] != tunnel_identities(after, known, index)[1]
            for index in range(count)
        ):
            message = f"the identity of {peer.name} changes: a tunnel that is cut comes back only once both ends agree"
            yield Risk(name=RiskName.CHANGE_IDENTITY, subject=peer.name, message=message)


def _renumbered(before: GatewaySpec, after: GatewaySpec, renames: Mapping[str, str]) -> Iterable[Risk]:
    """Bundles whose inner addresses move as a name's side effect, or that have one tunnel: others are undone in time.

    Probes come back once the peer has moved too; meanwhile half of a bundle's tunnels carry nothing.
    """
    for peer in before.peers:
        known = after.peer(follow(peer.name, renames))
        kept = min(peer.tunnels.count, known.tunnels.count) if known else 0
        moved = known is not None and any(
            inner_addresses(before, peer, index) != inner_addresses(after, known, index) for index in range(kept)
        )
        if known is not None and moved and (peer.inner == known.inner or kept == 1):
            cause = "peers[].inner changes" if peer.inner != known.inner else "the lower name is another one now"
            if before.initiates(peer) != after.initiates(known):
                cause += f", {'we' if after.initiates(known) else 'the peer'} will initiate"
            cost = "half of its tunnels carry nothing" if kept > 1 else "its tunnel carries nothing"
            message = f"the inner addresses of {known.name} move ({cause}): {cost} until the peer moves too"
            yield Risk(name=RiskName.RENUMBER_INNER, subject=known.name, message=message)


def _fabric(before: GatewaySpec, after: GatewaySpec) -> Iterable[Risk]:
    """Whether no session with a leaf goes on as it is."""
    if not before.fabric.neighbors:
        return
    kept = set(before.fabric.neighbors) & set(after.fabric.neighbors)
    changed = [
        f"{name} {old} -> {new}"
        for name, old, new in (
            ("gateway.asn", before.asn, after.asn),
            ("gateway.router_id", before.router_id, after.router_id),
        )
        if old != new
    ]
    if not kept:
        changed.append("none of fabric.neighbors stays as it is")
    if changed:
        message = f"every BGP session with the leafs ends ({', '.join(changed)}): they forget what we told them"
        yield Risk(name=RiskName.RESET_FABRIC, subject="", message=message)


def _dropped(
    before: GatewaySpec, after: GatewaySpec, renames: Mapping[str, str], withdrawn: Collection[IPNetwork]
) -> Iterable[Risk]:
    """What the guard lets through now and not afterwards, of peers that stay; what is withdrawn is told as that."""
    for prefix in before.prefixes:
        if before.peers and not _within(prefix, after.prefixes):
            message = f"{prefix} is no longer in gateway.prefixes: packets for it are dropped"
            yield Risk(name=RiskName.DROP_TRAFFIC, subject=str(prefix), message=message)
    for peer in before.peers:
        known = after.peer(follow(peer.name, renames))
        for source in peer.accept if known and known.tunnels.count and peer.tunnels.count else ():
            if known is not None and not _within(source, (*known.accept, *withdrawn)):
                message = f"{source} is no longer accepted from {known.name}: its packets are dropped"
                yield Risk(name=RiskName.DROP_TRAFFIC, subject=known.name, message=message)
