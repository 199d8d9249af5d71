"""What a change costs beyond what it says: tunnels that stop carrying, or the operator's own way to the gateway."""

from __future__ import annotations

import time

from ikeorch.core.ids import TunnelId
from ikeorch.core.revision import Terms
from ikeorch.core.status import TunnelState
from ikeorch.core.units import Seconds
from ikeorch.daemon.management import ManagementPath
from ikeorch.daemon.pass_result import PassResult
from ikeorch.daemon.reconciler import Reconciler

PATIENCE = Seconds(10.0)
"""Seconds that tunnels may be lost; one that is established anew is away for less."""


class Losses:
    """Watches the last change. A daemon that was started since knows nothing of what was before.

    Args:
        reconciler: the loop.
    """

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler
        self._management = ManagementPath()
        self._terms = Terms()
        self._carried: frozenset[str] = frozenset()
        self._since: float | None = None
        self.narrow: frozenset[TunnelId] = frozenset()
        """Tunnels that did not take packets of their full size before the change either."""

    def watch(self, terms: Terms) -> None:
        """A change is made now."""
        self._terms = terms
        last = self._reconciler.last
        self._carried, self._since = carrying(last), None
        self.narrow = frozenset(each.plan.tunnel for each in last.tunnels if each.too_large) if last else frozenset()
        self._management.watch(terms.operator)

    def look(self) -> str | None:
        """What was lost for so long that the change must go, None while it need not."""
        result = self._reconciler.last
        inner = {str(local) for each in result.tunnels for local, _ in each.plan.inner} if result else set()
        return self._management.lost(inner) or self._tunnels(result)

    def _tunnels(self, result: PassResult | None) -> str | None:
        """Tunnels that the change took away on purpose are not lost."""
        configured = {str(tunnel) for peer in self._reconciler.spec.peers for tunnel in peer.tunnel_ids}
        carried = self._carried & configured
        lost = carried - carrying(result)
        if not carried or len(lost) <= self._terms.max_lost * len(carried):
            self._since = None
            return None
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since < PATIENCE:
            return None
        return f"{len(lost)} of {len(carried)} tunnels stopped carrying: {', '.join(sorted(lost)[:8])}"


def carrying(result: PassResult | None) -> frozenset[str]:
    """The tunnels that carry packets, by name."""
    if result is None:
        return frozenset()
    return frozenset(str(status.plan.tunnel) for status in result.tunnels if status.state is TunnelState.CARRYING)
