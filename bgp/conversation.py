"""The writer of one conversation with ExaBGP: finds out what it holds, then sends what differs from the wish.

Only this task sends commands, so that answers can be matched by order. ExaBGP is asked what it holds at the beginning
and every 30 s; in between, what it was told and has confirmed is taken for what it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from bgp.advertisement import IPAddress, IPNetwork
from bgp.config_file import ConfigFile
from bgp.configuration import is_in_force
from bgp.errors import LinkLostError
from bgp.grammar import (
    ARE_YOU_THERE,
    RELOAD,
    SHOW_CONFIGURATION,
    SHOW_NEIGHBORS,
    SHOW_ROUTES,
    ShownNeighbor,
    parse_fingerprints,
    parse_neighbors,
    parse_route,
    render_change,
    render_end_of_rib,
)
from bgp.link import Link
from bgp.peers import Peer, Peers
from bgp.rib import Change, Route
from bgp.session import SessionState

OPEN_DEADLINE = 10.0
"""Seconds for all that the shim remembers."""
RESYNC = 30.0
"""Seconds after which ExaBGP is asked again what it holds."""
HEARTBEAT = 3.0
"""Seconds after which an idle ExaBGP is asked for a sign of life."""
HEARTBEAT_PATIENCE = 5.0
CONNECTING_PATIENCE = 3.0
"""Seconds that a reload waits for sessions on their way up."""
RELOAD_AGAIN = 0.5
"""Seconds until a reload that was passed over is asked for again."""
RELOAD_PATIENCE = 15.0
"""Seconds until a reload that is not seen is a reason to show."""


class Conversation:
    """What is said over one link.

    Args:
        link: to the shim.
        peers: the wish and what is known.
        config_file: what ExaBGP should run with.
        wake: set when there may be something to do.
        on_change: told when ExaBGP refuses routes.
    """

    def __init__(
        self,
        link: Link,
        peers: Peers,
        config_file: ConfigFile,
        *,
        wake: asyncio.Event,
        on_change: Callable[[str], None],
    ) -> None:
        self._link = link
        self._peers = peers
        self._config_file = config_file
        self._wake = wake
        self._on_change = on_change
        self._reload_since: float | None = None

    async def open(self) -> None:
        """Hear what the shim remembers, then ask ExaBGP.

        Raises:
            LinkLostError: there is no sense to be had from the other end.
        """
        try:
            async with asyncio.timeout(OPEN_DEADLINE):
                await self._link.ready.wait()
        except TimeoutError:
            raise LinkLostError("the shim does not come to an end of what it remembers") from None
        await self._survey()

    async def write(self) -> None:
        """Send what there is to send, for ever.

        Raises:
            LinkLostError: the conversation is over.
        """
        surveyed = asked = time.monotonic()
        while True:
            self._wake.clear()
            if self._config_file.reload_due:
                await self._reload()
            self._pump()
            await self._send_ends_of_rib()
            self._link.check_deadline()
            if time.monotonic() >= surveyed + RESYNC:
                await self._survey()
                surveyed = asked = time.monotonic()
                continue
            if self._link.idle and time.monotonic() >= asked + HEARTBEAT:
                await self._make_sure()
                asked = time.monotonic()
            again = time.monotonic() + RELOAD_AGAIN if self._config_file.reload_due else surveyed + RESYNC
            await self._sleep(min(surveyed + RESYNC, again, asked + HEARTBEAT))

    async def _make_sure(self) -> None:
        """Ask an idle ExaBGP for a sign of life: one that hangs loses its sessions without a word."""
        try:
            async with asyncio.timeout(HEARTBEAT_PATIENCE):
                await self._link.ask(ARE_YOU_THERE)
        except TimeoutError:
            raise LinkLostError(f"ExaBGP has not answered for {HEARTBEAT_PATIENCE:.0f} s: it hangs") from None

    async def _sleep(self, until: float) -> None:
        """Until something may have to be done."""
        moments = [until]
        if self._link.overdue_at is not None:
            moments.append(self._link.overdue_at + 0.01)
        if self._link.room > 0:
            moments += [due for _, peer in self._sendable() if (due := peer.rib.due()) is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(moments) - time.monotonic())):
                await self._wake.wait()

    def _sendable(self) -> list[tuple[IPAddress, Peer]]:
        """Whom routes may be sent for.

        A route that waits in ExaBGP for a lost session keeps it from reloading: while a reload is due none is given.
        """
        return [
            (address, peer)
            for address, peer in self._peers.wished
            if not self._config_file.reload_due or peer.progress.state is SessionState.UP
        ]

    def _pump(self) -> None:
        """Fill the pipeline, one route of each neighbour in turn."""
        now = time.monotonic()
        peers = self._sendable()
        while peers and self._link.room > 0:
            rest = []
            for address, peer in peers:
                if self._link.room > 0 and (change := peer.rib.next_change(now)) is not None:
                    self._post(address, peer, change)
                    rest.append((address, peer))
            peers = rest

    def _post(self, address: IPAddress, peer: Peer, change: Change) -> None:
        def finish(done: bool) -> None:
            before = len(peer.rib.refused)
            peer.rib.answered(change.route.prefix, done=done, now=time.monotonic())
            if bool(before) != bool(peer.rib.refused):
                self._on_change(f"session {address}: ExaBGP {'takes all' if before else 'refuses'} routes")

        self._link.post(render_change(address, change), finish)

    async def _send_ends_of_rib(self) -> None:
        for address, peer in self._peers.wished:
            if peer.end_of_rib_due:
                peer.ended_rib = True
                # Refused when the session has just gone; its next "up" asks again.
                await self._link.ask(render_end_of_rib(address))

    async def _survey(self) -> None:
        """Ask what ExaBGP runs with and what it holds."""
        shown = await self._ask_neighbors()
        done, lines = await self._link.ask(SHOW_ROUTES)
        if not done:
            raise LinkLostError("ExaBGP does not say what it announces")
        held: dict[IPAddress, dict[IPNetwork, Route]] = {entry.address: {} for entry in shown}
        for line in lines:
            if (parsed := parse_route(line)) is not None:
                address, route = parsed
                held.setdefault(address, {})[route.prefix] = route
        self._config_file.reload_due |= not await self._in_force()
        self._peers.learn(held)

    async def _ask_neighbors(self) -> tuple[ShownNeighbor, ...]:
        self._peers.asking()
        done, lines = await self._link.ask(SHOW_NEIGHBORS)
        shown = parse_neighbors("".join(lines)) if done else None
        if shown is None:
            raise LinkLostError("ExaBGP does not say which neighbours it has")
        self._peers.take_shown(shown, time.time())
        return shown

    async def _in_force(self) -> bool:
        """Whether ExaBGP runs with the neighbours that are wished."""
        done, lines = await self._link.ask(SHOW_CONFIGURATION)
        if not done:
            raise LinkLostError("ExaBGP does not say what it runs with")
        return self._peers.wish is None or is_in_force(self._peers.wish, parse_fingerprints(lines))

    async def _reload(self) -> None:
        """Have ExaBGP read its file, and see that it did; it passes over the request while updates wait to be sent."""
        if not self._config_file.in_place:
            return
        if await self._in_force():
            self._taken()
            return
        now = time.monotonic()
        self._reload_since = self._reload_since or now
        # A session that comes up in the very pass in which the file is read is lost at once.
        if self._peers.connecting and now < self._reload_since + CONNECTING_PATIENCE:
            return
        if now > self._reload_since + RELOAD_PATIENCE:
            hint = "restart exabgp if this stays"
            self._config_file.note(reload_problem=f"ExaBGP does not take its new configuration; {hint}")
        await self._link.ask(RELOAD)
        if await self._in_force():
            self._taken()
            await self._survey()

    def _taken(self) -> None:
        self._reload_since = None
        self._config_file.reload_due = False
        self._config_file.note(reload_problem="")
