"""Which suite the two ends of each tunnel use now, so that both can be changed in any order (D18).

The end that does not initiate cannot ask for another IKE_SA. When its suite is changed it takes the old one beside the
new one until the peer has moved: until no live IKE_SA of the bundle has the old one any more. A tunnel that goes down
meanwhile is remembered, for what its peer will ask for when it comes back is what it asked for before.

Pure: the truth is list-sas, what is remembered only stands in for tunnels without a live IKE_SA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ikeorch.core.charon_state import CharonState
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.ids import TunnelId
from ikeorch.core.spec import GatewaySpec, PeerSpec
from ikeorch.core.suites import Suite, from_negotiated

Agreed = Mapping[TunnelId, Suite]
"""The suite of each tunnel's last live IKE_SA."""


def observe_suites(spec: GatewaySpec, charon: CharonState | None, before: Agreed) -> dict[TunnelId, Suite]:
    """What each configured tunnel uses, as seen now, else as remembered.

    Args:
        spec: the configuration; tunnels that it does not have are forgotten.
        charon: this pass's snapshot, None when charon does not answer.
        before: what the last pass returned.
    """
    known: dict[str, set[Suite]] = {}
    for sa in charon.sas if charon else ():
        suite = from_negotiated(sa.suite) if sa.live and sa.forwards else None
        if suite is not None:
            known.setdefault(sa.connection, set()).add(suite)
    agreed: dict[TunnelId, Suite] = {}
    for peer in spec.peers:
        wanted = peer.tunnels.suite
        live = {tunnel: known[tunnel.connection] for tunnel in peer.tunnel_ids if tunnel.connection in known}
        moved = bool(live) and all(wanted in suites for suites in live.values())
        for tunnel in peer.tunnel_ids:
            suites = live.get(tunnel, set())
            if moved or wanted in suites:
                agreed[tunnel] = wanted
            elif suites:
                agreed[tunnel] = min(suites, key=str)
            elif tunnel in before:
                agreed[tunnel] = before[tunnel]
    return agreed


def taken_beside(spec: GatewaySpec, peer: PeerSpec, agreed: Agreed) -> tuple[Suite, ...]:
    """The suites that a bundle takes beside its own; none where we initiate, for then we are the one who moves."""
    if spec.initiates(peer):
        return ()
    used = {agreed[tunnel] for tunnel in peer.tunnel_ids if tunnel in agreed}
    return tuple(sorted(used - {peer.tunnels.suite}, key=str))


def find_unmoved(spec: GatewaySpec, agreed: Agreed) -> Iterable[Condition]:
    """Peers that still use a suite which is no longer configured here."""
    for peer in spec.peers:
        beside = taken_beside(spec, peer, agreed)
        if beside:
            old = ", ".join(str(suite) for suite in beside)
            message = f"it still uses {old}, which is taken beside {peer.tunnels.suite} until it has moved"
            yield Condition(code=Code.SUITE_PENDING, subject=peer.name, message=message)
