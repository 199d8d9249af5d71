"""The API process of ExaBGP: joins ExaBGP's two pipes to ikeorchd's unix socket. Run by path, needs nothing but Python.

ExaBGP stops all its sessions for good when it writes to an API process that has just died, ends when that process dies
six times within 64 s, and stops speaking BGP when nobody reads its pipe. So this outlives ikeorchd, reads ExaBGP's pipe
at all times, keeps every buffer bounded, and ends only when ExaBGP does. It never announces and never withdraws.

There are two processes: a guardian, which ExaBGP started and which does nothing but wait, and a worker. The guardian
holds the pipes open: a worker that is killed is replaced without ExaBGP noticing, and a guardian that is killed leaves
the worker in place until ExaBGP has started another pair.

With nobody connected, events are kept: per neighbour the last state, the last "down" and the last NOTIFICATION. Whoever
connects is told these first. Answers carry no number, so before each connection the pipe is brought to a known point:
``reset`` drops the commands that ExaBGP has read but not done, ``version`` is answered at once, and what comes before
its answer, but for events, belonged to an earlier conversation and is dropped.

Wire towards ikeorchd, lines both ways: ``ikeorch-shim 1``, the remembered events, ``ikeorch-shim ready``, then ExaBGP's
lines as they come; the other way only whole ASCII lines go on to ExaBGP.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

HELLO = b"ikeorch-shim 1\n"
READY = b"ikeorch-shim ready\n"
EVENT = b'{ "exabgp"'
MARK = b"reset\nversion\n"
MARK_TEXT = b"exabgp "
LINE_LIMIT = 1024 * 1024
COMMAND_LIMIT = 1024
TO_DAEMON_LIMIT = 8 * LINE_LIMIT
TO_EXABGP_LIMIT = 256 * 1024
NEIGHBOR_LIMIT = 1024
RETRIES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between attempts to connect; the last is repeated for ever."""
PAUSE = 0.1
"""Seconds before a worker that died is replaced."""
CHUNK = 65536
ATOMIC = select.PIPE_BUF
"""Bytes that are written to a pipe wholly or not at all: a worker that is killed leaves no half command."""


class Memory:
    """What a newcomer must know: the last events of each neighbour."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, bytes]] = {}

    def take(self, line: bytes) -> None:
        """Remember an event; lines that are none, or that cannot be read, are passed over."""
        try:
            message = json.loads(line)
            peer = message["neighbor"]
            address, kind = str(peer["address"]["peer"]), str(message["type"])
            state = str(peer.get("state", "")) if kind == "state" else ""
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        if kind not in ("state", "notification"):
            return
        events = {} if state == "up" else self._events.pop(address, {})
        if state == "down":
            events = {"notification": events["notification"]} if "notification" in events else {}
        events[state or kind] = line
        self._events.pop(address, None)
        self._events[address] = events
        while len(self._events) > NEIGHBOR_LIMIT:
            del self._events[next(iter(self._events))]

    def lines(self) -> list[bytes]:
        """The remembered events, per neighbour in the order in which they came."""
        return [line for events in self._events.values() for line in events.values()]


class Lines:
    """Cuts a stream into whole lines; one that is longer than the limit is dropped up to its end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._skip = False
        self.overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, each with its end."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines = []
        for line in whole:
            if self._skip:
                self._skip = False
            elif len(line) > self._limit:
                self.overflowed = True
            else:
                lines.append(line + b"\n")
        if len(self._rest) > self._limit:
            self._rest, self._skip, self.overflowed = b"", True, True
        return lines


class Shim:
    """The pump. One thread, one poll."""

    def __init__(self, path: str, source: int = 0, sink: int = 1) -> None:
        self._path = path
        self._source = source
        self._sink = sink
        self._memory = Memory()
        self._from_exabgp = Lines(LINE_LIMIT)
        self._to_exabgp = bytearray()
        self._daemon: socket.socket | None = None
        self._from_daemon = Lines(COMMAND_LIMIT)
        self._to_daemon = bytearray()
        self._attempt = 0
        self._next_attempt = 0.0
        self._marks = 0
        """Steps until the pipe is at a known point: 2 awaits the answer's text, 1 its end, 0 is there."""
        os.set_blocking(source, False)
        os.set_blocking(sink, False)
        self._begin_mark()

    def run(self) -> None:
        """Until ExaBGP closes a pipe."""
        while True:
            if self._daemon is None and self._marks == 0 and time.monotonic() >= self._next_attempt:
                self._connect()
            for descriptor, events in self._wait():
                if descriptor == self._source:
                    if not self._read_exabgp():
                        return
                elif descriptor == self._sink:
                    if events & (select.POLLERR | select.POLLHUP) or not self._write_exabgp():
                        return
                elif self._daemon is not None and descriptor == self._daemon.fileno():
                    self._serve_daemon(events)

    def _wait(self) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        # Without events it still reports the pipe's end.
        poll.register(self._sink, select.POLLOUT if self._to_exabgp else 0)
        timeout: float | None = None
        if self._daemon is not None:
            reading = select.POLLIN if len(self._to_exabgp) < TO_EXABGP_LIMIT else 0
            poll.register(self._daemon, reading | (select.POLLOUT if self._to_daemon else 0))
        elif self._marks == 0:
            timeout = max(0.0, self._next_attempt - time.monotonic()) * 1000 + 1
        return poll.poll(timeout)

    def _read_exabgp(self) -> bool:
        try:
            data = os.read(self._source, CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        for line in self._from_exabgp.feed(data):
            self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        if line.startswith(EVENT):
            self._memory.take(line)
        elif self._marks:
            if self._marks == 2 and line.startswith(MARK_TEXT):
                self._marks = 1
            elif self._marks == 1 and line in (b"done\n", b"error\n"):
                self._marks = 0
                self._next_attempt = time.monotonic()
            return
        if self._daemon is not None:
            self._to_daemon += line
            if len(self._to_daemon) > TO_DAEMON_LIMIT:
                self._lose_daemon()

    def _write_exabgp(self) -> bool:
        try:
            whole = self._to_exabgp.rindex(b"\n", 0, ATOMIC) + 1
            del self._to_exabgp[: os.write(self._sink, self._to_exabgp[:whole])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _connect(self) -> None:
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        daemon.setblocking(False)
        try:
            daemon.connect(self._path)
        except OSError:
            daemon.close()
            self._next_attempt = time.monotonic() + RETRIES[min(self._attempt, len(RETRIES) - 1)]
            self._attempt += 1
            return
        self._daemon = daemon
        self._from_daemon = Lines(COMMAND_LIMIT)
        self._to_daemon = bytearray(HELLO + b"".join(self._memory.lines()) + READY)

    def _serve_daemon(self, events: int) -> None:
        assert self._daemon is not None
        try:
            if events & select.POLLOUT and self._to_daemon:
                del self._to_daemon[: self._daemon.send(self._to_daemon[:CHUNK])]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                data = self._daemon.recv(CHUNK)
                if not data:
                    self._lose_daemon()
                    return
                for line in self._from_daemon.feed(data):
                    if not line.isascii():
                        self._lose_daemon()
                        return
                    self._attempt = 0
                    self._to_exabgp += line
                if self._from_daemon.overflowed:
                    self._lose_daemon()
        except BlockingIOError:
            pass
        except OSError:
            self._lose_daemon()

    def _lose_daemon(self) -> None:
        """Forget the connection, and with it all answers that are still to come."""
        if self._daemon is not None:
            self._daemon.close()
            self._daemon = None
        self._to_daemon.clear()
        self._next_attempt = time.monotonic() + RETRIES[min(self._attempt, len(RETRIES) - 1)]
        self._attempt += 1
        self._begin_mark()

    def _begin_mark(self) -> None:
        self._to_exabgp += MARK
        self._marks = 2


def guard(worker: Callable[[], None]) -> None:
    """Keep one worker alive until ExaBGP has closed its pipes, which the worker says by ending in good order."""
    child = 0

    def end(_signal: int, _frame: object) -> None:
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        os._exit(0)

    while True:
        signal.signal(signal.SIGTERM, end)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            worker()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        child = 0
        if status == 0:
            return
        time.sleep(PAUSE)


def main() -> None:
    """Run until ExaBGP ends."""
    path = sys.argv[1]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guard(lambda: Shim(path).run())


if __name__ == "__main__":
    main()
