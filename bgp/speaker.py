"""Keeps ExaBGP's routes equal to the whole wish of its caller.

`Speaker.set` takes all neighbours and all their routes, any number of times. What is to be sent follows from what
ExaBGP holds and says: routes that it already holds cause no command, routes that it holds from an earlier life of ours
and that are no longer wished are withdrawn. No state is kept on disk. Stopping does not withdraw: an empty wish does.
"""

from __future__ import annotations

import asyncio
import shutil
import socket as sockets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bgp.advertisement import Advertisement, IPAddress, Neighbor
from bgp.config_file import ConfigFile
from bgp.configuration import render_configuration
from bgp.conversation import Conversation
from bgp.errors import LinkLostError, SocketError
from bgp.grammar import LINE_LIMIT
from bgp.link import Event, Link
from bgp.peers import Peers
from bgp.process import shim_command, validate_command
from bgp.session import Session

NOT_CONNECTED = "ExaBGP's process is not connected"
GREETING_LIMIT = 8
"""Connections that have not said yet what they are."""

ACCEPT_PAUSE = 0.5
"""Seconds after a connection could not be taken."""


class Speaker:
    """The way to the routers.

    Args:
        socket: where the shim connects; made by `run`, mode 0660.
        config_file: ExaBGP's configuration, written when neighbours change.
        on_change: told in a few words what changed: a session, the connection, a reason. It must not block.
        socket_group: whose members may connect, by name or number; None for this process's group.
        shim: command line of the API process in the configuration; None for ours, with this Python.
        validate: command line of ExaBGP's check of a configuration; () for no check; None for `exabgp validate`.
        environment: of that check; None for this process's.

    Raises:
        ValueError: a path that cannot stand in ExaBGP's configuration.
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
        self._on_change = on_change
        self._socket_group = socket_group
        self._shim = tuple(shim) if shim is not None else shim_command(socket)
        render_configuration((), self._shim)
        self._wake = asyncio.Event()
        self._peers = Peers(on_change)
        self._config_file = ConfigFile(
            config_file,
            validate=tuple(validate) if validate is not None else validate_command(),
            environment=environment,
            on_change=on_change,
            wake=self._wake,
        )
        self._link: Link | None = None
        self._greeting: set[asyncio.Task[None]] = set()
        self._arrivals: asyncio.Queue[Link] = asyncio.Queue()
        self._closing = asyncio.Event()
        self._trouble = NOT_CONNECTED

    @property
    def connected(self) -> bool:
        """The shim is there, and ExaBGP has said what it holds."""
        return not self._trouble

    @property
    def trouble(self) -> str:
        """Why it is not connected, "" when it is."""
        return self._trouble

    @property
    def shim_pid(self) -> int | None:
        """Process id of the connected shim's worker."""
        return self._link.peer_pid if self._link is not None else None

    def set(self, routes: Mapping[Neighbor, Sequence[Advertisement]]) -> None:
        """Wish for exactly these neighbours with exactly these routes; cheap when nothing changed.

        A prefix of another family than its neighbour's session is not sent to that neighbour.

        Raises:
            ValueError: two neighbours at one address, or a prefix twice for one neighbour. The old wish stays.
        """
        wish = {neighbor: tuple(offers) for neighbor, offers in routes.items()}
        if wish == self._peers.wish:
            return
        text = render_configuration(wish, self._shim)
        self._peers.put_wish(wish)
        self._config_file.want(text)
        self._wake.set()

    def sessions(self) -> Mapping[IPAddress, Session]:
        """Each wished neighbour's session, by the neighbour's address."""
        return self._peers.sessions(self._trouble, self._config_file.problems)

    async def run(self) -> None:
        """Serve the shim, until `close` or for ever.

        Raises:
            SocketError: the socket cannot be opened.
        """
        listener = self._listen()
        try:
            async with asyncio.TaskGroup() as tasks:
                workers = [
                    tasks.create_task(self._config_file.keep()),
                    tasks.create_task(self._accept(listener, tasks)),
                    tasks.create_task(self._serve()),
                ]
                await self._closing.wait()
                for worker in (*workers, *self._greeting):
                    worker.cancel()
        finally:
            listener.close()
            while not self._arrivals.empty():
                await self._drop(self._arrivals.get_nowait())

    async def close(self) -> None:
        """End the conversation, and `run`. Nothing is withdrawn."""
        self._closing.set()

    def _listen(self) -> sockets.socket:
        listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        listener.setblocking(False)
        try:
            self._socket.unlink(missing_ok=True)
            listener.bind(str(self._socket))
            self._socket.chmod(0o660)
            if self._socket_group is not None:
                shutil.chown(self._socket, group=self._socket_group)
            listener.listen()
        except (OSError, LookupError) as error:
            listener.close()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = f"the socket for ExaBGP's process cannot be opened ({reason})"
            raise SocketError(what, where=str(self._socket), hint="check its folder's owner and mode") from None
        return listener

    async def _accept(self, listener: sockets.socket, tasks: asyncio.TaskGroup) -> None:
        """Let connections in, a few at a time."""
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
                reader, writer = await asyncio.open_unix_connection(sock=accepted, limit=LINE_LIMIT)
            except OSError:
                # No file descriptor is left, for one: the shim tries again.
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            link = Link(reader, writer, on_event=self._take_event, on_progress=self._wake.set)
            if len(self._greeting) >= GREETING_LIMIT:
                await self._drop(link)
                continue
            task = tasks.create_task(self._greet(link))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, link: Link) -> None:
        """Only one that says the right word may take the place of the one before it."""
        greeted = False
        try:
            await link.greet()
            greeted = True
            self._arrivals.put_nowait(link)
        except LinkLostError:
            pass
        finally:
            if not greeted:
                await self._drop(link)

    async def _drop(self, link: Link) -> None:
        link.close()
        await link.closed()

    async def _serve(self) -> None:
        """One conversation at a time; a newcomer ends the one before it, whose process may hang."""
        link = await self._arrivals.get()
        while True:
            conversation = asyncio.create_task(self._converse(link))
            newcomer = asyncio.create_task(self._arrivals.get())
            try:
                await asyncio.wait((conversation, newcomer), return_when=asyncio.FIRST_COMPLETED)
                link.close()
                await conversation
                link = await newcomer
            finally:
                conversation.cancel()
                newcomer.cancel()
                await asyncio.gather(conversation, newcomer, return_exceptions=True)

    async def _converse(self, link: Link) -> None:
        """Until the link is lost."""
        conversation = Conversation(link, self._peers, self._config_file, wake=self._wake, on_change=self._on_change)
        self._link = link
        trouble = NOT_CONNECTED
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(link.read())
                await conversation.open()
                self._say("")
                await conversation.write()
        except* LinkLostError as group:
            trouble = f"{NOT_CONNECTED}: {group.exceptions[0]}"
        finally:
            self._link = None
            self._peers.forget()
            self._say(trouble)
            await self._drop(link)

    def _take_event(self, event: Event) -> None:
        self._peers.take_event(event, live=self.connected)
        self._wake.set()

    def _say(self, trouble: str) -> None:
        """Note whether and why ExaBGP cannot be reached."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._on_change(trouble or "ExaBGP's process is connected")
