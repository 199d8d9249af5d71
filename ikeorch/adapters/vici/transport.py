"""One connection to charon: a command at a time, each with a deadline.

VICI has no request ids: after a time-out, a cancellation or garbage nobody knows whose answer comes next, so the
connection is closed and the next call opens another (D2).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from vici.protocol import Packet

from ikeorch.adapters.peer import peer_of
from ikeorch.adapters.vici.wire import (
    HEADER,
    Outgoing,
    Received,
    Section,
    WireError,
    decode_packet,
    encode_registration,
    encode_request,
    packet_length,
)
from ikeorch.errors import CharonRefusedError, CharonUnreachableError, NotPermittedError

DEADLINE = 10.0
"""Seconds for one exchange; a noblock list-sas of a thousand SAs takes well under one."""
HINT = "start it: systemctl start strongswan; or correct gateway.vici_socket"


class Transport:
    """A connection that is opened when needed.

    Args:
        path: charon's VICI socket.
        deadline: seconds for one exchange.
    """

    def __init__(self, path: Path, *, deadline: float = DEADLINE) -> None:
        self._path = path
        self._deadline = deadline
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    @property
    def peer_pid(self) -> int:
        """Process id of the charon that we are connected to (SO_PEERCRED), 0 while not connected."""
        peer = peer_of(self._streams[1].transport if self._streams else None)
        return 0 if peer is None else peer.pid

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def request(self, command: str, message: Outgoing | None = None) -> Section:
        """One command and its answer.

        Raises:
            CharonUnreachableError: no answer in time, or none that is VICI.
            CharonRefusedError: the answer is success=no, or charon does not know the command.
            NotPermittedError: this user may not enter the socket.
        """
        replies, answer = await self._exchange(command, message or {}, event=None)
        del replies
        _check(command, answer)
        return answer

    async def stream(self, command: str, event: str, message: Outgoing | None = None) -> list[Section]:
        """A command whose answer comes as a series of events.

        Returns:
            The events' messages in charon's order; sections of one name stay apart.

        Raises:
            As `request`.
        """
        replies, answer = await self._exchange(command, message or {}, event=event)
        _check(command, answer)
        return replies

    async def events(
        self, names: Iterable[str], wanted: Callable[[bytes], bool] = lambda _: True
    ) -> AsyncGenerator[tuple[str, Section], None]:
        """Register for events, then yield them as they come; ends only with an error.

        Args:
            names: of the events.
            wanted: whether a packet is worth decoding, by its bytes.

        The first item is ``("registered", {})``, once all that this charon knows are registered: what happened before
        it must be read from a snapshot.

        Raises:
            CharonUnreachableError: the connection is lost.
            NotPermittedError: this user may not enter the socket.
        """
        early: list[tuple[str, Section]] = []
        try:
            async with self._lock, self._guarded("event registration"):
                for name in names:
                    await self._send(encode_registration(name, register=True))
                    while (received := await self._receive()).kind == Packet.EVENT:
                        early.append((received.event, received.message))
            yield "registered", {}
            for item in early:
                yield item
            while True:
                received = await self._next_event(wanted)
                yield received.event, received.message
        finally:
            self.close()

    async def _next_event(self, wanted: Callable[[bytes], bool]) -> Received:
        try:
            while True:
                packet = await self._read()
                if wanted(packet) and (received := decode_packet(packet)).kind == Packet.EVENT:
                    return received
        except (OSError, WireError, EOFError) as error:
            raise self._unreachable(f"the event connection is lost ({error or type(error).__name__})") from None

    async def _exchange(self, command: str, message: Outgoing, *, event: str | None) -> tuple[list[Section], Section]:
        try:
            request = encode_request(command, message)
        except WireError as error:
            raise CharonRefusedError(f"{command} cannot be sent to charon: {error}") from None
        async with self._lock, self._guarded(command):
            self._drop_ended()
            if event is not None:
                await self._register(event, register=True)
            await self._send(request)
            replies: list[Section] = []
            while (received := await self._receive()).kind == Packet.EVENT:
                if received.event == event:
                    replies.append(received.message)
            if event is not None:
                await self._register(event, register=False)
            if received.kind == Packet.CMD_UNKNOWN:
                raise CharonRefusedError(f"charon does not know the command {command}", hint="is it 5.9 or newer?")
            if received.kind != Packet.CMD_RESPONSE:
                raise WireError(f"a packet of type {received.kind} in answer to {command}")
            return replies, received.message

    async def _register(self, event: str, *, register: bool) -> None:
        await self._send(encode_registration(event, register=register))
        while (received := await self._receive()).kind == Packet.EVENT:
            pass
        if received.kind != Packet.EVENT_CONFIRM:
            raise CharonRefusedError(f"charon does not know the event {event}")

    def _guarded(self, command: str) -> _Guarded:
        return _Guarded(self, command, self._deadline)

    def _drop_ended(self) -> None:
        """A charon that was restarted since the last call ended this connection; only the next one is of use."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()

    async def _send(self, data: bytes) -> None:
        if self._streams is None:
            self._streams = await self._connect()
        self._streams[1].write(data)
        await self._streams[1].drain()

    async def _receive(self) -> Received:
        return decode_packet(await self._read())

    async def _read(self) -> bytes:
        assert self._streams is not None
        reader = self._streams[0]
        return await reader.readexactly(packet_length(await reader.readexactly(HEADER.size)))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(str(self._path))
        except PermissionError:
            hint = "run the daemon as root, or set charon.group"
            raise NotPermittedError("charon's socket may not be used", where=str(self._path), hint=hint) from None
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise self._unreachable(f"charon does not answer ({reason})") from None

    def _unreachable(self, what: str) -> CharonUnreachableError:
        return CharonUnreachableError(what, where=str(self._path), hint=HINT)


class _Guarded:
    """Stands around one exchange: the deadline, and the end of the connection after any trouble."""

    def __init__(self, transport: Transport, command: str, deadline: float) -> None:
        self._transport = transport
        self._command = command
        self._deadline = deadline
        self._timeout = asyncio.timeout(deadline)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)  # type: ignore[arg-type]
        except TimeoutError:
            self._transport.close()
            what = f"charon did not answer {self._command} within {self._deadline:g} s"
            raise self._transport._unreachable(what) from None
        if error is None or isinstance(error, CharonRefusedError):
            return
        self._transport.close()
        if isinstance(error, OSError | WireError | EOFError):
            reason = str(error) or type(error).__name__
            what = f"the conversation with charon broke off in {self._command} ({reason})"
            raise self._transport._unreachable(what) from None


def _check(command: str, answer: Section) -> None:
    if answer.get("success") == b"no":
        reason = answer.get("errmsg", b"no reason given")
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise CharonRefusedError(f"charon refused {command}: {text}", hint="see charon's log")
