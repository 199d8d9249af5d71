"""One conversation with the shim: commands out, answers and events in, each answer matched to its command by order.

Answers carry no number. Whatever makes their order doubtful ends the conversation: a command without an answer in
time, an answer that nobody awaits, text where none belongs. The shim then brings the pipe to a known point and connects
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Callable

from bgp.errors import LinkLostError
from bgp.grammar import (
    HELLO,
    READY,
    Answer,
    NotificationEvent,
    ShutdownEvent,
    StateEvent,
    Text,
    Unusable,
    parse_line,
)

DEADLINE = 20.0
"""Seconds without any part of the oldest command's answer."""
HELLO_DEADLINE = 5.0
WINDOW = 128
"""Commands on the way: enough to keep ExaBGP busy, far below what fills its pipe (13,000 answers)."""
ANSWER_LIMIT = 200_000
"""Lines in one answer."""
_CREDENTIALS = struct.Struct("3i")

Event = StateEvent | NotificationEvent


class _Command:
    """One that is on the way."""

    __slots__ = ("finish", "lines")

    def __init__(self, finish: Callable[[bool], None], lines: list[str] | None) -> None:
        self.finish = finish
        self.lines = lines


class Link:
    """A connection of the shim.

    Args:
        reader: with a limit of LINE_LIMIT.
        writer: the other direction.
        on_event: called with each event as it comes.
        on_progress: called after each answer.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_event: Callable[[Event], None],
        on_progress: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._on_progress = on_progress
        self._commands: deque[_Command] = deque()
        self._heard = 0.0
        self.ready = asyncio.Event()
        """Set once all that the shim remembers was told."""

    @property
    def peer_pid(self) -> int:
        """The shim's process id (SO_PEERCRED)."""
        peer: socket.socket = self._writer.get_extra_info("socket")
        pid, _, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return int(pid)

    @property
    def room(self) -> int:
        """How many more commands may be on the way."""
        return WINDOW - len(self._commands)

    @property
    def idle(self) -> bool:
        """No command is on the way."""
        return not self._commands

    @property
    def overdue_at(self) -> float | None:
        """When the oldest command's answer is too late, by the monotonic clock; None when none is awaited."""
        return self._heard + DEADLINE if self._commands else None

    def close(self) -> None:
        """End the conversation at once, also when the other end does not read."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Wait until the connection is gone; it takes no time once `close` was called."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def greet(self) -> None:
        """Hear who it is.

        Raises:
            LinkLostError: not our shim, or silent.
        """
        try:
            async with asyncio.timeout(HELLO_DEADLINE):
                line = await self._line()
        except TimeoutError:
            raise LinkLostError("whoever connected says nothing") from None
        if line != HELLO.encode():
            raise LinkLostError("whoever connected is not our shim, or of another version")

    async def read(self) -> None:
        """Take what comes, until the end.

        Raises:
            LinkLostError: always, at the end.
        """
        while True:
            self._take(await self._line())

    def post(self, line: bytes, finish: Callable[[bool], None], *, lines: list[str] | None = None) -> None:
        """Send a command.

        Args:
            line: the command with its end.
            finish: called with whether it was done.
            lines: where the text of its answer goes; None for a command without any.
        """
        if not self._commands:
            self._heard = time.monotonic()
        self._commands.append(_Command(finish, lines))
        self._writer.write(line)

    async def ask(self, line: bytes) -> tuple[bool, list[str]]:
        """Send a command by itself, after all others were answered; nothing else is sent meanwhile.

        ExaBGP answers some commands at once and others in turn: only one that is alone has its own answer for sure.

        Returns:
            Whether it was done, and the text of its answer.
        """
        while not self.idle:
            await self._answered(self._commands[-1])
        text: list[str] = []
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.post(line, lambda done: None if answer.done() else answer.set_result(done), lines=text)
        return await self._in_time(answer), text

    async def _answered(self, command: _Command) -> None:
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        finish = command.finish

        def both(done: bool) -> None:
            finish(done)
            if not waiting.done():
                waiting.set_result(done)

        command.finish = both
        await self._in_time(waiting)

    async def _in_time(self, answer: asyncio.Future[bool]) -> bool:
        while True:
            self.check_deadline()
            rest = max(0.01, (self.overdue_at or 0.0) - time.monotonic())
            done, _ = await asyncio.wait([answer], timeout=rest)
            if done:
                return answer.result()

    def check_deadline(self) -> None:
        """See whether ExaBGP still answers.

        Raises:
            LinkLostError: it does not.
        """
        if self.overdue_at is not None and time.monotonic() > self.overdue_at:
            raise LinkLostError(f"ExaBGP has not answered for {DEADLINE:g} s")

    async def _line(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\n"))[:-1]
        except asyncio.LimitOverrunError:
            raise LinkLostError("a line without end came from the shim") from None
        except (asyncio.IncompleteReadError, OSError):
            raise LinkLostError("the shim closed the connection") from None

    def _take(self, raw: bytes) -> None:
        match line := parse_line(raw):
            case Text() if not self.ready.is_set():
                if line.text == READY:
                    self.ready.set()
            case Text():
                if not self._commands or (lines := self._commands[0].lines) is None:
                    raise LinkLostError("an answer came that nobody awaits")
                if len(lines) >= ANSWER_LIMIT:
                    raise LinkLostError("an answer has no end")
                self._heard = time.monotonic()
                lines.append(line.text)
            case Answer():
                if not self._commands:
                    raise LinkLostError("an answer came that nobody awaits")
                self._heard = time.monotonic()
                self._commands.popleft().finish(line.done)
                self._on_progress()
            case StateEvent() | NotificationEvent():
                self._on_event(line)
            case ShutdownEvent():
                raise LinkLostError("ExaBGP ends")
            case Unusable():
                pass
