"""Keeps ExaBGP's routes equal to the whole wish of its caller.

`Speaker.set` takes all neighbours and all their routes, any number of times. What is to be sent follows from what ExaBGP
holds, which is asked after each connection and every 30 s: routes that it already holds cause no command, routes that it
holds from an earlier life of ours and that are no longer wished are withdrawn. Nothing is remembered on disk.

One task writes; answers are matched by order (`bgp/link.py`). Stopping does not withdraw: an empty wish does.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bgp.advertisement import Advertisement, IPAddress, IPNetwork, Neighbor
from bgp.config_file import put_configuration
from bgp.configuration import is_in_force, render_configuration
from bgp.errors import ConfigurationRefusedError, LinkLostError, SocketError
from bgp.grammar import (
    LINE_LIMIT,
    RELOAD,
    SHOW_NEIGHBORS,
    SHOW_ROUTES,
    NeighborInForce,
    NotificationEvent,
    parse_neighbors,
    parse_route,
    render_change,
    render_end_of_rib,
)
from bgp.link import Event, Link
from bgp.process import shim_command, validate_command
from bgp.rib import Change, Rib, Route, resolve_route
from bgp.session import Progress, Session, SessionState

RESYNC = 30.0
"""Seconds after which ExaBGP is asked again what it holds."""
FILE_PAUSE = 5.0
"""Seconds until a configuration that could not be written is tried again."""
RELOAD_LOOKS = 4
RELOAD_PAUSE = 0.1
"""Seconds between looks at whether a reload was done."""
RELOAD_PATIENCE = 15.0
"""Seconds until a reload that is not seen becomes a reason; it is asked for again until it is seen."""
NOT_CONNECTED = "ExaBGP's process is not connected"


class _Peer:
    """All that is kept of one neighbour."""

    def __init__(self) -> None:
        self.neighbor: Neighbor | None = None
        self.offers: tuple[Advertisement, ...] = ()
        self.progress = Progress()
        self.rib = Rib()
        self.end_of_rib_due = False

    def resolved(self) -> list[tuple[Advertisement, Route]]:
        """The wish as exact routes."""
        if self.neighbor is None:
            return []
        pairs = ((offer, resolve_route(offer, self.neighbor, self.progress.local)) for offer in self.offers)
        return [(offer, route) for offer, route in pairs if route is not None]

    def came_up(self) -> None:
        """The session is up, or was found up: the peer waits for an End-of-RIB after graceful restart."""
        self.end_of_rib_due = self.neighbor is not None and self.neighbor.graceful_restart is not None


class Speaker:
    """The way to the routers.

    Args:
        socket: where the shim connects; made by `run`, mode 0660.
        config_file: ExaBGP's configuration, written when neighbours change.
        on_change: told in a few words what changed: a session, the connection, a reason. It must not block.
        socket_group: whose members may connect, by name or number; None for this process's group.
        shim: command line of the API process in the configuration; None for ours, with this Python.
        validate: command line of ExaBGP's check of a configuration; () for no check.
        environment: of that check; None for this process's.
    """

    def __init__(
        self,
        socket: Path,
        *,
        config_file: Path,
        on_change: Callable[[str], None],
        socket_group: str | int | None = None,
        shim: Sequence[str] | None = None,
        validate: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._socket = socket
        self._config_file = config_file
        self._on_change = on_change
        self._socket_group = socket_group
        self._shim = tuple(shim) if shim is not None else shim_command(socket)
        self._validate = tuple(validate) if validate is not None else validate_command()
        self._environment = environment
        self._wish: dict[Neighbor, tuple[Advertisement, ...]] | None = None
        self._peers: dict[IPAddress, _Peer] = {}
        self._link: Link | None = None
        self._arrivals: asyncio.Queue[Link] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._text: str | None = None
        self._text_changed = asyncio.Event()
        self._reload_due = False
        self._reload_since: float | None = None
        self._file_text: str | None = None
        self._file_problem = ""
        self._reload_problem = ""
        self._trouble = NOT_CONNECTED

    @property
    def connected(self) -> bool:
        """The shim is there and ExaBGP answers."""
        return self._link is not None and not self._trouble

    @property
    def shim_pid(self) -> int | None:
        """Process id of the connected shim."""
        return self._link.peer_pid if self._link is not None else None

    def set(self, routes: Mapping[Neighbor, Sequence[Advertisement]]) -> None:
        """Wish for exactly these neighbours with exactly these routes; cheap when nothing changed.

        A prefix of another family than its neighbour's session is not sent to that neighbour.

        Raises:
            ValueError: two neighbours at one address, or a prefix twice for one neighbour. The old wish stays.
        """
        wish = {neighbor: tuple(offers) for neighbor, offers in routes.items()}
        if wish == self._wish:
            return
        if len({neighbor.address for neighbor in wish}) != len(wish):
            raise ValueError("two neighbours have one address")
        for neighbor, offers in wish.items():
            if len({offer.prefix for offer in offers}) != len(offers):
                raise ValueError(f"a prefix stands twice among those for {neighbor.address}")
        text = render_configuration(wish, self._shim)
        self._wish = wish
        for address in self._peers.keys() - {neighbor.address for neighbor in wish}:
            del self._peers[address]
        for neighbor, offers in wish.items():
            self._put_wish(self._peers.setdefault(neighbor.address, _Peer()), neighbor, offers)
        if text != self._text:
            self._text = text
            self._text_changed.set()
        self._wake.set()

    def sessions(self) -> Mapping[IPAddress, Session]:
        """Each wished neighbour's session, by the neighbour's address."""
        return {
            address: self._session(peer, peer.neighbor)
            for address, peer in self._peers.items()
            if peer.neighbor is not None
        }

    async def run(self) -> None:
        """Serve the shim, for ever.

        Raises:
            SocketError: the socket cannot be opened.
        """
        server = await self._listen()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_file())
                tasks.create_task(self._serve_links())
        finally:
            server.close()
            await self.close()

    async def close(self) -> None:
        """End the conversation. Nothing is withdrawn."""
        if self._link is not None:
            self._link.close()
        while not self._arrivals.empty():
            self._arrivals.get_nowait().close()

    # The socket

    async def _listen(self) -> asyncio.Server:
        try:
            self._socket.unlink(missing_ok=True)
            server = await asyncio.start_unix_server(self._arrive, path=str(self._socket), limit=LINE_LIMIT)
            self._socket.chmod(0o660)
            if self._socket_group is not None:
                shutil.chown(self._socket, group=self._socket_group)
        except (OSError, LookupError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = f"the socket for ExaBGP's process cannot be opened ({reason})"
            raise SocketError(what, where=str(self._socket), hint="check its folder's owner and mode") from None
        return server

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer, on_event=self._on_event, on_progress=self._wake.set)
        try:
            await link.greet()
        except LinkLostError:
            link.close()
            return
        self._arrivals.put_nowait(link)

    async def _serve_links(self) -> None:
        """One conversation at a time; a newcomer ends the one before it, whose process may hang."""
        link = await self._arrivals.get()
        while True:
            conversation = asyncio.create_task(self._converse(link))
            newcomer = asyncio.create_task(self._arrivals.get())
            try:
                await asyncio.wait((conversation, newcomer), return_when=asyncio.FIRST_COMPLETED)
                if not conversation.done():
                    link.close()
                await conversation
                link = await newcomer
            finally:
                for task in (conversation, newcomer):
                    task.cancel()
                await asyncio.gather(conversation, newcomer, return_exceptions=True)

    async def _converse(self, link: Link) -> None:
        self._link = link
        reason = NOT_CONNECTED
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(link.read())
                tasks.create_task(self._write(link))
        except* LinkLostError as group:
            reason = f"{NOT_CONNECTED}: {group.exceptions[0]}"
        finally:
            self._link = None
            link.close()
            for peer in self._peers.values():
                peer.rib.forget()
            self._say(reason)

    def _say(self, trouble: str) -> None:
        """Note whether and why ExaBGP cannot be reached."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._on_change(trouble or "ExaBGP's process is connected")

    # What comes

    def _on_event(self, event: Event) -> None:
        peer = self._peers.get(event.neighbor)
        if peer is None:
            peer = self._peers[event.neighbor] = _Peer()
        if isinstance(event, NotificationEvent):
            peer.progress.notified(event)
            return
        before = peer.progress.state
        if peer.progress.changed(event):
            self._put_wish(peer, peer.neighbor, peer.offers)
            peer.came_up()
            if self._link is not None and self._link.ready.is_set():
                peer.rib.replay()
            self._wake.set()
        if peer.progress.state is not before and peer.neighbor is not None:
            self._on_change(f"session {event.neighbor} is {peer.progress.state.value}")

    def _put_wish(self, peer: _Peer, neighbor: Neighbor | None, offers: tuple[Advertisement, ...]) -> None:
        peer.neighbor, peer.offers = neighbor, offers
        if neighbor is not None:
            peer.rib.want({route.prefix: route for _, route in peer.resolved()})

    # What goes

    async def _write(self, link: Link) -> None:
        await link.ready.wait()
        await self._survey(link)
        self._say("")
        surveyed = time.monotonic()
        while True:
            self._wake.clear()
            if self._reload_due:
                await self._reload(link)
            self._pump(link)
            await self._send_ends_of_rib(link)
            now = time.monotonic()
            link.check_deadline()
            if now >= surveyed + RESYNC:
                await self._survey(link)
                surveyed = time.monotonic()
                continue
            await self._sleep(link, min(surveyed + RESYNC, now + (1.0 if self._reload_due else RESYNC)))

    async def _sleep(self, link: Link, until: float) -> None:
        moments = [until]
        if link.overdue_at is not None:
            moments.append(link.overdue_at + 0.01)
        if link.room > 0:
            moments += [due for peer in self._peers.values() if (due := peer.rib.due()) is not None]
        try:
            async with asyncio.timeout(max(0.0, min(moments) - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _pump(self, link: Link) -> None:
        """Fill the pipeline, one neighbour after the other."""
        now = time.monotonic()
        # A route that waits for its session keeps ExaBGP from reloading: none is given to a lost one meanwhile.
        peers = [
            (address, peer)
            for address, peer in self._peers.items()
            if peer.neighbor is not None and (peer.progress.state is SessionState.UP or not self._reload_due)
        ]
        while peers and link.room > 0:
            rest = []
            for address, peer in peers:
                if link.room > 0 and (change := peer.rib.next_change(now)) is not None:
                    self._post(link, address, peer, change)
                    rest.append((address, peer))
            peers = rest

    def _post(self, link: Link, address: IPAddress, peer: _Peer, change: Change) -> None:
        prefix: IPNetwork = change.route.prefix

        def finish(done: bool) -> None:
            before = peer.rib.refused
            peer.rib.answered(prefix, done=done, now=time.monotonic())
            if peer.rib.refused != before:
                self._on_change(f"session {address}: routes refused by ExaBGP: {len(peer.rib.refused)}")

        link.post(render_change(address, change), finish)

    async def _send_ends_of_rib(self, link: Link) -> None:
        for address, peer in list(self._peers.items()):
            if peer.end_of_rib_due and peer.progress.state is SessionState.UP and peer.rib.settled:
                peer.end_of_rib_due = False
                # Refused when the session has just gone; its next "up" asks again.
                await link.ask(render_end_of_rib(address))

    async def _survey(self, link: Link) -> None:
        """Ask what ExaBGP runs with and what it holds."""
        shown = await self._ask_neighbors(link)
        done, lines = await link.ask(SHOW_ROUTES)
        if not done:
            raise LinkLostError("ExaBGP does not say what it announces")
        held: dict[IPAddress, dict[IPNetwork, Route]] = {entry.address: {} for entry in shown}
        for line in lines:
            parsed = parse_route(line)
            if parsed is None:
                continue
            address, route = parsed
            held.setdefault(address, {})[route.prefix] = route
        for address, peer in self._peers.items():
            if address in held:
                peer.rib.learn(held[address])
            else:
                peer.rib.forget()
        if self._wish is not None and not is_in_force(self._wish, shown):
            self._reload_due = True

    async def _ask_neighbors(self, link: Link) -> tuple[NeighborInForce, ...]:
        done, lines = await link.ask(SHOW_NEIGHBORS)
        shown = parse_neighbors("".join(lines)) if done else None
        if shown is None:
            raise LinkLostError("ExaBGP does not say which neighbours it has")
        for entry in shown:
            peer = self._peers.setdefault(entry.address, _Peer())
            before = peer.progress.state
            if peer.progress.shown(entry, time.time()):
                self._put_wish(peer, peer.neighbor, peer.offers)
                peer.came_up()
            if peer.progress.state is not before and peer.neighbor is not None:
                self._on_change(f"session {entry.address} is {peer.progress.state.value}")
        return shown

    # The configuration

    async def _keep_file(self) -> None:
        """Write the configuration when the wish changes it; again after a while when that failed."""
        while True:
            try:
                async with asyncio.timeout(FILE_PAUSE if self._file_problem else None):
                    await self._text_changed.wait()
            except TimeoutError:
                pass
            self._text_changed.clear()
            text = self._text
            assert text is not None
            try:
                changed = await put_configuration(
                    self._config_file, text, validate=self._validate, environment=self._environment
                )
            except ConfigurationRefusedError as error:
                self._note_problem(file=str(error))
                continue
            self._file_text = text
            self._note_problem(file="")
            self._reload_due |= changed
            self._wake.set()

    async def _reload(self, link: Link) -> None:
        """Have ExaBGP read its file, and see that it did; it passes over the request while updates wait to be sent."""
        if self._wish is None or self._file_text != self._text:
            return
        wish = tuple(self._wish)
        self._reload_since = self._reload_since or time.monotonic()
        await link.ask(RELOAD)
        for _ in range(RELOAD_LOOKS):
            if is_in_force(wish, await self._ask_neighbors(link)):
                self._reload_due, self._reload_since = False, None
                self._note_problem(reload="")
                await self._survey(link)
                return
            await asyncio.sleep(RELOAD_PAUSE)
        if time.monotonic() > self._reload_since + RELOAD_PATIENCE:
            self._note_problem(reload="ExaBGP does not take its new configuration; restart exabgp if this stays")

    def _note_problem(self, *, file: str | None = None, reload: str | None = None) -> None:
        before = (self._file_problem, self._reload_problem)
        self._file_problem = self._file_problem if file is None else file
        self._reload_problem = self._reload_problem if reload is None else reload
        if before != (self._file_problem, self._reload_problem):
            self._on_change(self._file_problem or self._reload_problem or "ExaBGP runs with its new configuration")

    # What is shown

    def _session(self, peer: _Peer, neighbor: Neighbor) -> Session:
        held = peer.rib.held
        refused = f"ExaBGP refuses {len(peer.rib.refused)} routes" if peer.rib.refused else ""
        reasons = (self._trouble, self._file_problem, self._reload_problem, peer.progress.reason, refused)
        return Session(
            neighbor=neighbor,
            state=peer.progress.state if self.connected else SessionState.UNKNOWN,
            since=peer.progress.since,
            reason="; ".join(reason for reason in reasons if reason),
            sent=tuple(offer for offer, route in peer.resolved() if held.get(route.prefix) == route),
        )
