"""The fabric as it is found: what it was told, and how the sessions stand."""

from __future__ import annotations

from dataclasses import dataclass

from ikeorch.core.fabric import FabricRoute, FabricWish
from ikeorch.core.spec import FabricNeighbor
from ikeorch.core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSession:
    """A session with a leaf.

    Attributes:
        neighbor: whom with.
        up: whether it is established.
        reason: why it is not, or what was not taken; "" when there is nothing to say.
        since: Unix seconds, 0 when not known.
        sent: what ExaBGP has taken for it.
    """

    neighbor: FabricNeighbor
    up: bool
    reason: str
    since: Seconds
    sent: tuple[FabricRoute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricState:
    """All of it.

    Attributes:
        wish: what was asked for last by this daemon, None before the first time.
        problem: why ExaBGP cannot be reached, "" when it can.
        sessions: one a neighbour, in the wish's order.
    """

    wish: FabricWish | None = None
    problem: str = ""
    sessions: tuple[FabricSession, ...] = ()
