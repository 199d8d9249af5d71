"""What was found in the world in one snapshot. None means "not known", which is never the same as "not there"."""

from __future__ import annotations

from dataclasses import dataclass, field

from ikeorch.core.charon_state import CharonState, IkeSa
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelState, NextHop, NextHopGroup, XfrmInterface


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """One snapshot.

    Attributes:
        kernel: None when the kernel could not be read.
        charon: None when charon does not answer.
        fabric: what the fabric was told.
    """

    kernel: KernelState | None
    charon: CharonState | None
    fabric: FabricState = field(default_factory=FabricState)

    def grouped_tunnels(self) -> frozenset[TunnelId]:
        """Tunnels that stand in a next-hop group of the kernel."""
        if self.kernel is None:
            return frozenset()
        objects = self.kernel.objects.values()
        owners = {entry.name: entry.tunnel for entry in objects if isinstance(entry, XfrmInterface)}
        devices = {entry.id: entry.device for entry in objects if isinstance(entry, NextHop)}
        used = {member.next_hop for entry in objects if isinstance(entry, NextHopGroup) for member in entry.members}
        return frozenset(owners[devices[hop]] for hop in used if hop in devices and devices[hop] in owners)

    def sas_of(self, tunnel: TunnelId) -> tuple[IkeSa, ...]:
        """Charon's IKE_SAs of a tunnel; empty also when charon does not answer."""
        if self.charon is None:
            return ()
        return tuple(sa for sa in self.charon.sas if sa.connection == tunnel.connection)
