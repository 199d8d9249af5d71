"""What the prober is told: every tunnel whose XFRM interface is there, also one that is about to go away."""

from __future__ import annotations

from collections.abc import Mapping

from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.probe.stamp import Sender
from ikeorch.core.actual import Actual
from ikeorch.core.desired import Desired, TunnelPlan
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress, XfrmInterface
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.waves import Waves


def probe_targets(
    spec: GatewaySpec,
    desired: Desired,
    actual: Actual,
    *,
    spared: frozenset[TunnelId],
    waves: Waves,
    heard: Mapping[str, str],
) -> dict[TunnelId, ProbeTarget]:
    """The targets by tunnel.

    Args:
        spec: the configuration.
        desired: what follows from it.
        actual: what there was before this pass's actions.
        spared: tunnels that the peer is asked to leave out of its groups.
        waves: a tunnel whose turn to be changed has not come is not probed with the size that it is to have.
        heard: what peers call themselves where it is not what we call them, by identity.
    """
    if actual.kernel is None:
        return {}
    present = {
        entry.tunnel: entry for entry in actual.kernel.objects.values() if isinstance(entry, XfrmInterface) and entry.up
    }
    waiting, leaving = waves.waiting(), waves.leaving()
    known = frozenset(peer.name for peer in spec.peers) | {spec.name}
    also = {peer.name: heard.get(peer.identity, "") for peer in spec.peers}
    targets = {}
    for tunnel, interface in present.items():
        plan = desired.tunnels.get(tunnel)
        if plan is None and tunnel not in leaving:
            continue
        pair = plan.inner[0] if plan is not None and tunnel not in waiting else _present_pair(interface, plan)
        if pair is None:
            continue
        local, remote = pair
        targets[tunnel] = ProbeTarget(
            interface=interface.name,
            local=local,
            remote=remote,
            us=Sender(spec.name, tunnel.index),
            peer=Sender(tunnel.peer, tunnel.index),
            known=known,
            also=also.get(tunnel.peer, ""),
            spare=tunnel in spared or tunnel in waves.spared(),
            proven=plan is None or desired.weights[tunnel] > 0,
            mtu=0 if plan is None or tunnel in waiting else plan.mtu,
        )
    return targets


def _present_pair(interface: XfrmInterface, plan: TunnelPlan | None) -> tuple[IPAddress, IPAddress] | None:
    """The addresses that an interface has now, ours and the peer's: of a /31 or /127 the other one is the peer's."""
    usable = [each for each in interface.addresses if plan is None or each.version == plan.inner[0][0].version]
    own = usable[0] if usable else None
    if own is None:
        return None
    return own.ip, next((address for address in own.network if address != own.ip), own.ip)
