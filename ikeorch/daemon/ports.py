"""What the loop needs from the world. The adapters fulfil these ports, and so do the fakes of the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.core.charon_state import CharonState, Connection
from ikeorch.core.fabric import FabricWish
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.health import ProbeState
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelObject, KernelState
from ikeorch.core.secret import Secret


class KernelPort(Protocol):
    """The kernel: snapshot, and one object at a time."""

    async def snapshot(self, sysctls: Iterable[str] = ()) -> KernelState:
        """Everything of ours, and the named settings."""

    async def ensure(self, obj: KernelObject) -> None:
        """Create the object, or replace the version that is there."""

    async def remove(self, obj: KernelObject) -> None:
        """Remove the object; one that is not there is no error."""


class CharonPort(Protocol):
    """charon: snapshot, configuration, and the start and end of IKE_SAs."""

    async def snapshot(self) -> CharonState:
        """Everything of ours in one charon process."""

    async def load_authority(self, name: str, certificate_pem: str) -> None:
        """Load a trust anchor under a name."""

    async def load_key(self, pem: Secret) -> None:
        """Load a private key."""

    async def load_connection(self, connection: Connection) -> None:
        """Load or replace a connection."""

    async def unload_connection(self, name: str) -> None:
        """Unload a connection."""

    async def initiate(self, tunnel: TunnelId) -> None:
        """Queue a new IKE_SA with its CHILD_SA; the result shows in snapshots and events."""

    async def terminate(self, ike_id: int, *, force: bool) -> None:
        """Queue the end of an IKE_SA."""


class ProbePort(Protocol):
    """The prober."""

    @property
    def problem(self) -> str:
        """Why the prober cannot be asked, "" when it can."""

    def states(self) -> Mapping[TunnelId, ProbeState]:
        """What has been seen of each tunnel; empty while the prober cannot be asked."""

    def set_targets(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        """Probe exactly these."""


class FabricPort(Protocol):
    """The leafs, by BGP."""

    @property
    def wish(self) -> FabricWish | None:
        """What was asked for last, None before the first time."""

    def state(self) -> FabricState:
        """What was asked for last, and how the sessions stand."""

    def advertise(self, wish: FabricWish) -> None:
        """Tell the fabric exactly this."""
