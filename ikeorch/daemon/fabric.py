"""The fabric through bgp's speaker: our values in, sessions out."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

import structlog

from bgp.advertisement import Advertisement, Neighbor
from bgp.errors import BgpError
from bgp.process import validate_command
from bgp.session import Session, SessionState
from bgp.speaker import Speaker
from ikeorch.core.fabric import FabricRoute, FabricWish
from ikeorch.core.fabric_state import FabricSession, FabricState
from ikeorch.core.spec import FabricNeighbor
from ikeorch.core.units import BytesPerSecond, Seconds
from ikeorch.errors import IkeorchError

RESTART_TIME = 20
"""Seconds for which a leaf keeps our routes while ExaBGP is started anew, where no other gateway carries (D4)."""
RETRY = 5.0
"""Seconds until a socket that could not be made is tried again."""
SOCKET_GROUP = "nogroup"
"""ExaBGP, and our shim below it, run as the user nobody."""


_log = structlog.get_logger("ikeorch.fabric")


class Fabric:
    """The leafs.

    Args:
        socket: where ExaBGP's shim connects.
        config_file: ExaBGP's configuration, which we write.
    """

    def __init__(self, socket: Path, config_file: Path) -> None:
        self._speaker = Speaker(
            socket,
            config_file=config_file,
            on_change=self._changed,
            socket_group=SOCKET_GROUP,
            validate=validate_command(exabgp=find_exabgp() or "exabgp"),
        )
        self._wake: Callable[[str], None] | None = None
        self.wish: FabricWish | None = None
        self._problem = ""

    def _changed(self, what: str) -> None:
        if self._wake is not None:
            self._wake(f"fabric: {what}")

    async def run(self, wake: Callable[[str], None]) -> None:
        """Keep ExaBGP's routes equal to the wish, for ever.

        Args:
            wake: called when a session changed.

        """
        self._wake = wake
        while True:
            try:
                await self._speaker.run()
            except BgpError as error:
                self._problem = str(error)
                _log.error("fabric_failed", reason=self._problem)
                wake("fabric failed")
            await asyncio.sleep(RETRY)
            self._problem = ""

    def advertise(self, wish: FabricWish) -> None:
        """Tell the fabric exactly this; nothing is sent for what is the same.

        Raises:
            IkeorchError: a neighbour or a route that BGP does not know; nothing is changed.
        """
        try:
            self._speaker.set(to_advertisements(wish))
        except ValueError as error:
            raise IkeorchError(f"the fabric cannot be told: {error}", hint="correct the section fabric") from None
        self.wish = wish

    def state(self) -> FabricState:
        """What was wished last, and how the sessions stand."""
        problem = self._problem or self._speaker.trouble
        if problem and find_exabgp() is None:
            problem = "the program exabgp is not installed"
        shown = self._speaker.sessions()
        neighbors = self.wish.fabric.neighbors if self.wish else ()
        sessions = (_session(neighbor, shown.get(neighbor.address)) for neighbor in neighbors)
        return FabricState(wish=self.wish, problem=problem, sessions=tuple(sessions))


def find_exabgp() -> str | None:
    """The program: beside this Python, where pip puts it, or in PATH; None when it is not installed."""
    beside = Path(sys.executable).with_name("exabgp")
    return str(beside) if beside.exists() else shutil.which("exabgp")


def to_advertisements(wish: FabricWish) -> dict[Neighbor, tuple[Advertisement, ...]]:
    """A wish as the speaker takes it.

    Raises:
        ValueError: a neighbour or a route that BGP does not know.
    """
    offers = tuple(Advertisement(prefix=route.prefix, link_bandwidth=route.bandwidth) for route in wish.routes)
    return {_neighbor(wish, neighbor): offers for neighbor in wish.fabric.neighbors}


def _neighbor(wish: FabricWish, neighbor: FabricNeighbor) -> Neighbor:
    return Neighbor(
        address=neighbor.address,
        asn=neighbor.asn,
        local_asn=wish.asn,
        router_id=IPv4Address(wish.router_id),
        transitive=neighbor.transitive,
        graceful_restart=RESTART_TIME if wish.fabric.gateways_in_site == 1 else None,
    )


def _session(neighbor: FabricNeighbor, session: Session | None) -> FabricSession:
    if session is None:
        return FabricSession(neighbor=neighbor, up=False, reason="not configured yet", since=Seconds(0), sent=())
    sent = tuple(
        FabricRoute(prefix=offer.prefix, bandwidth=BytesPerSecond(offer.link_bandwidth)) for offer in session.sent
    )
    return FabricSession(
        neighbor=neighbor,
        up=session.state is SessionState.UP,
        reason=session.reason,
        since=Seconds(session.since),
        sent=sent,
    )
