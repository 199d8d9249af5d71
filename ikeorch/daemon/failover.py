"""The short way: a tunnel that went down leaves its groups at once, and the fabric hears of it, beside the passes.

A pass looks at everything before it acts, and may be waiting for charon. What a failed tunnel needs is known already:
the groups of the last pass without it. A pass that began before must not put the older groups back or tell the fabric
what was true before, so every change of these, on either way, holds one lock, and a pass asks under it whether it is
outdated. Nothing is added here: what comes back is a matter of the passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from ikeorch.core.allocate import Allocations
from ikeorch.core.desired import Desired, plan_routes, with_spared
from ikeorch.core.fabric import compute_fabric
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import NextHopGroup
from ikeorch.core.spec import GatewaySpec
from ikeorch.daemon.ports import FabricPort, KernelPort
from ikeorch.errors import IkeorchError

_log = structlog.get_logger("ikeorch.loop")


class Failover:
    """Takes tunnels out of their groups.

    Args:
        kernel: the kernel.
        fabric: the leafs.
    """

    def __init__(self, kernel: KernelPort, fabric: FabricPort) -> None:
        self._kernel = kernel
        self._fabric = fabric
        self._generation = 0
        self._known: tuple[GatewaySpec, Allocations, Desired, bool] | None = None
        self._grouped: frozenset[TunnelId] = frozenset()
        self._down: frozenset[TunnelId] = frozenset()
        self.lock = asyncio.Lock()

    def begin_pass(self) -> Callable[[], bool]:
        """Called when a pass takes the verdicts that it acts on.

        Returns:
            Says whether verdicts were acted on since, so that the pass's groups are outdated.
        """
        generation = self._generation
        return lambda: self._generation != generation

    def end_pass(
        self, spec: GatewaySpec, allocations: Allocations, desired: Desired, *, resilient: bool, outdated: bool
    ) -> None:
        """Remember what a pass brought about."""
        self._known = spec, allocations, desired, resilient
        if not outdated:
            self._grouped = frozenset(tunnel for tunnel, weight in desired.weights.items() if weight)

    async def repair(self, verdicts: Mapping[TunnelId, Verdict]) -> bool:
        """Take the tunnels that are down, or spared, out of their groups, and tell the fabric what is left.

        The last members of a group stay (D6). What fails is left to the next pass.

        Returns:
            Whether a group was changed.
        """
        leaving = {Verdict.DOWN, Verdict.SPARED}
        all_down = frozenset(tunnel for tunnel, verdict in verdicts.items() if verdict in leaving)
        if all_down - self._down:
            # also one that a running pass is about to add
            self._generation += 1
        self._down = all_down
        down = all_down & self._grouped
        if self._known is None or not down:
            return False
        began = time.monotonic()
        spec, allocations, desired, resilient = self._known
        known = {tunnel: verdicts.get(tunnel, Verdict.UNKNOWN) for tunnel in self._grouped}
        routed, weights, held = plan_routes(
            spec, desired.tunnels, allocations, verdicts=known, grouped=self._grouped, resilient=resilient
        )
        changed = failed = 0
        async with self.lock:
            for group in routed:
                if not isinstance(group, NextHopGroup) or group == desired.kernel.get(group.key):
                    continue
                try:
                    await self._kernel.ensure(group)
                except IkeorchError as error:
                    failed += 1
                    _log.warning("failover_failed", group=group.id, reason=str(error))
                else:
                    changed += 1
            if failed:
                return changed > 0
            self._grouped &= frozenset(tunnel for tunnel, weight in weights.items() if weight)
            if self._fabric.wish is not None:
                self._fabric.advertise(compute_fabric(spec, with_spared(weights, verdicts), held))
        if changed:
            _log.warning(
                "failed_over",
                tunnels=", ".join(str(tunnel) for tunnel in sorted(down)),
                groups=changed,
                duration_seconds=round(time.monotonic() - began, 4),
            )
        return changed > 0
