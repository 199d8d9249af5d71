"""The host's end of a lab channel: start commands through an agent and carry their streams."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.control import LabError
from lab.wire import (
    HALTED,
    MAX_CHUNK,
    Exit,
    Feed,
    Halt,
    Message,
    Output,
    Ready,
    Resize,
    Signal,
    Splitter,
    Start,
    Taken,
    encode,
)

_READ = 65536


class ChannelClosedError(LabError):
    """The other end of the channel has gone."""


class Channel:
    """A stream of lab messages over a socket. Not thread-safe: one user at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._splitter = Splitter()

    def fileno(self) -> int:
        """Return the socket's descriptor, readable when messages wait."""
        return self._sock.fileno()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            ChannelClosedError: Nobody is there any more.
        """
        try:
            self._sock.sendall(encode(message))
        except OSError as error:
            raise ChannelClosedError(f"the lab's channel is closed: {error.strerror}") from error

    def take(self) -> list[Message]:
        """Read what has arrived; blocks until there is something.

        Raises:
            ChannelClosedError: The other end closed it.
        """
        try:
            data = self._sock.recv(_READ)
        except OSError as error:
            raise ChannelClosedError(f"the lab's channel is closed: {error.strerror}") from error
        if not data:
            raise ChannelClosedError("the lab's channel is closed by its other end")
        return self._splitter.feed(data)

    def wait_ready(self, timeout: float, alive: Callable[[], bool]) -> None:
        """Wait until the agent takes commands.

        Args:
            timeout: Seconds.
            alive: Whether the kernel still runs; looked at while waiting.

        Raises:
            LabError: It did not come up, or ended.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not alive():
                raise LabError("the lab kernel ended before its agent was ready")
            if select.select([self], [], [], 0.2)[0] and any(isinstance(m, Ready) for m in self.take()):
                return
        raise LabError(f"the lab kernel's agent was not ready within {timeout:g} s")

    def halt(self, timeout: float) -> bool:
        """Ask the other end to stop, and wait until it has killed and written everything.

        Args:
            timeout: Seconds to wait.

        Returns:
            Whether it said so; False when it is gone already or hangs.
        """
        deadline = time.monotonic() + timeout
        try:
            self.send(Halt())
            while (left := deadline - time.monotonic()) > 0:
                if not select.select([self], [], [], left)[0]:
                    return False
                if any(isinstance(message, Exit) and message.id == HALTED for message in self.take()):
                    return True
        except ChannelClosedError:
            return False
        return False

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


@dataclass(kw_only=True)
class Streams:
    """Where a command's streams go: descriptors of the caller. Input None means an empty one."""

    stdin: int | None = None
    stdout: int = 1
    stderr: int = 2


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def run_command(
    channel: Channel,
    start: Start,
    streams: Streams,
    *,
    timeout: float | None = None,
    resized: Callable[[], tuple[int, int] | None] = lambda: None,
) -> int:
    """Run one command through a channel that has no other user.

    Args:
        channel: A ready channel.
        start: The command.
        streams: Where its streams go.
        timeout: Seconds after which it is given up.
        resized: Returns the terminal's (rows, columns) when they changed, else None.

    Returns:
        The command's exit code.

    Raises:
        LabError: It could not be started, or the time is over.
        ChannelClosedError: The kernel below went away.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    channel.send(start)
    stdin = streams.stdin
    taken = True
    if stdin is None:
        channel.send(Feed(id=start.id, data=b""))
    while True:
        left = 3600.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise LabError(f"`{' '.join(start.argv)}` did not end within {timeout:g} s")
        readable = [channel.fileno()] + ([stdin] if stdin is not None and taken else [])
        ready = select.select(readable, [], [], min(left, 0.5) if start.tty else left)[0]
        if size := resized():
            channel.send(Resize(id=start.id, rows=size[0], cols=size[1]))
        if stdin is not None and stdin in ready:
            data = os.read(stdin, MAX_CHUNK)
            channel.send(Feed(id=start.id, data=data))
            stdin, taken = (stdin if data else None), False
        if channel.fileno() not in ready:
            continue
        for message in channel.take():
            match message:
                case Output(id=start.id):
                    _write_all(streams.stdout if message.stream == 1 else streams.stderr, message.data)
                case Taken(id=start.id):
                    taken = True
                case Exit(id=start.id):
                    if message.error:
                        raise LabError(message.error)
                    return message.code
                case _:
                    pass


def interrupt(channel: Channel, start: Start, number: int) -> None:
    """Send a signal to a running command, whatever the state of the channel.

    Args:
        channel: Where it runs.
        start: The command.
        number: The signal.
    """
    try:
        channel.send(Signal(id=start.id, number=number))
    except ChannelClosedError:
        return
