"""What the prober is told: every tunnel whose XFRM interface is there, also one that is about to go away."""

from __future__ import annotations

from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.probe.stamp import Sender
from ikeorch.core.actual import Actual
from ikeorch.core.desired import Desired
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import XfrmInterface
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.waves import Waves


def probe_targets(
    spec: GatewaySpec, desired: Desired, actual: Actual, *, spared: frozenset[TunnelId], waves: Waves
) -> dict[TunnelId, ProbeTarget]:
    """The targets by tunnel.

    Args:
        spec: the configuration.
        desired: what follows from it.
        actual: what there was before this pass's actions.
        spared: tunnels that the peer is asked to leave out of its groups.
        waves: a tunnel whose turn to be changed has not come is not probed with the size that it is to have.
    """
    if actual.kernel is None:
        return {}
    present = {
        entry.tunnel: entry for entry in actual.kernel.objects.values() if isinstance(entry, XfrmInterface) and entry.up
    }
    waiting, leaving = waves.waiting(), waves.leaving()
    targets = {}
    for tunnel, interface in present.items():
        plan = desired.tunnels.get(tunnel)
        if plan is not None:
            (local, remote), proven = plan.inner[0], desired.weights[tunnel] > 0
        elif tunnel in leaving and interface.addresses:
            # its peer may be gone from the configuration; of a /31 or /127 the other address is the peer's
            own = interface.addresses[0]
            local, proven = own.ip, True
            remote = next((address for address in own.network if address != local), local)
        else:
            continue
        targets[tunnel] = ProbeTarget(
            interface=interface.name,
            local=local,
            remote=remote,
            us=Sender(spec.name, tunnel.index),
            peer=Sender(tunnel.peer, tunnel.index),
            spare=tunnel in spared or tunnel in waves.spared(),
            proven=proven,
            mtu=0 if plan is None or tunnel in waiting else plan.mtu,
        )
    return targets
