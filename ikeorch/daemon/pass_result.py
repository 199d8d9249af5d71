"""What one pass of the loop saw and did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ikeorch.core.actual import Actual
from ikeorch.core.conditions import Condition
from ikeorch.core.desired import Desired
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Action
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.status import TunnelStatus
from ikeorch.core.units import Seconds
from ikeorch.core.waves import Waves
from ikeorch.daemon.execute import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """What one pass saw and did; the views of the API are made from the last one.

    Attributes:
        number: counts the passes, from 1.
        finished: Unix seconds.
        spec: the configuration in force.
        desired: what should be.
        actual: what was found, before the actions.
        planned: everything that differed.
        failures: what could not be carried out.
        tunnels: every tunnel's status.
        conditions: everything that is wrong.
        renewing: tunnels whose IKE_SA still has an older configuration.
        waves: tunnels that are being changed or taken down.
        refused: tunnels whose successors came to nothing, and how many did.
    """

    number: int
    finished: Seconds
    spec: GatewaySpec
    desired: Desired
    actual: Actual
    planned: tuple[Action, ...]
    failures: tuple[Failure, ...]
    tunnels: tuple[TunnelStatus, ...]
    conditions: tuple[Condition, ...]
    renewing: frozenset[TunnelId]
    waves: Waves
    refused: Mapping[TunnelId, int]

    @property
    def changing(self) -> frozenset[TunnelId]:
        """Tunnels that are not as configured yet, or not proven to be."""
        return self.renewing | self.waves.open()
