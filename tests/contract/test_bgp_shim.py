"""The shim as a process: the test is ExaBGP at its pipes and ikeorchd at its socket."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bgp.process import shim_command
from tests.contract.polling import eventually

MARK = [b"reset\n", b"version\n"]
ANSWER = b"exabgp 5.0.15\ndone\n"


def event(address: str, state: str, *, kind: str = "state", padding: int = 0) -> bytes:
    """A line of ExaBGP's."""
    peer = {"address": {"local": "127.0.0.1", "peer": address}, "state": state, "x": "x" * padding}
    if kind == "notification":
        del peer["state"]
    body = json.dumps({"time": 1.5, "type": kind, "neighbor": peer})
    return b'{ "exabgp": "5.0.0", ' + body[1:].encode() + b"\n"


class Exabgp:
    """What stands at the shim's pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.to_shim = process.stdin
        self.from_shim = process.stdout

    async def say(self, data: bytes) -> None:
        """Write, as far as the pipe takes it."""
        self.to_shim.write(data)
        async with asyncio.timeout(10):
            await self.to_shim.drain()

    async def taken(self) -> None:
        """Wait until the shim has read all of it."""
        await eventually(self._all_read, within=10)

    async def _all_read(self) -> bool:
        """Whether nothing waits in the pipe (pipe(7): FIONREAD, at either end)."""
        pipe = self.to_shim.transport.get_extra_info("pipe")
        waiting = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4)
        return not any(waiting) and not self.to_shim.transport.get_write_buffer_size()

    async def hear(self, count: int = 1) -> list[bytes]:
        """The next commands."""
        async with asyncio.timeout(10):
            return [await self.from_shim.readline() for _ in range(count)]

    async def mark(self) -> None:
        """Answer the question that brings the pipe to a known point."""
        assert await self.hear(2) == MARK
        await self.say(ANSWER)


class Daemon:
    """What listens at the socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrivals: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(
            lambda reader, writer: self._arrivals.put_nowait((reader, writer)), path=str(self._path), limit=1 << 22
        )

    async def accept(self) -> list[bytes]:
        """Take the shim's connection, and all that it remembers."""
        async with asyncio.timeout(10):
            self.reader, self.writer = await self._arrivals.get()
            self._writers.append(self.writer)
            assert await self.hear() == b"ikeorch-shim 1\n"
            lines = []
            while (line := await self.hear()) != b"ikeorch-shim ready\n":
                lines.append(line)
            return lines

    async def hear(self) -> bytes:
        """The next line."""
        assert self.reader is not None
        async with asyncio.timeout(10):
            return await self.reader.readline()

    def say(self, data: bytes) -> None:
        """Send commands."""
        assert self.writer is not None
        self.writer.write(data)

    @property
    def shim_pid(self) -> int:
        """Who is connected."""
        assert self.writer is not None
        peer: socket.socket = self.writer.get_extra_info("socket")
        pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)

    def stop(self) -> None:
        """Gone."""
        while not self._arrivals.empty():
            self._writers.append(self._arrivals.get_nowait()[1])
        for writer in self._writers:
            writer.close()
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)


@pytest.fixture
async def exabgp(tmp_path: Path) -> AsyncIterator[Exabgp]:
    """A shim that has just started."""
    process = await asyncio.create_subprocess_exec(
        *shim_command(tmp_path / "sock"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 22
    )
    yield Exabgp(process)
    if process.stdin is not None:
        process.stdin.close()
    async with asyncio.timeout(10):
        assert await process.wait() in (0, -signal.SIGKILL)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    """A daemon that does not listen yet."""
    daemon = Daemon(tmp_path / "sock")
    yield daemon
    daemon.stop()


async def test_lines_pass_in_both_directions(exabgp: Exabgp, daemon: Daemon) -> None:
    """Whole, and in order."""
    await daemon.start()
    await exabgp.mark()
    assert await daemon.accept() == []
    daemon.say(b"one\ntw")
    daemon.say(b"o\n")
    assert await exabgp.hear(2) == [b"one\n", b"two\n"]
    await exabgp.say(b"done\ndo")
    await exabgp.say(b"ne\n")
    assert [await daemon.hear(), await daemon.hear()] == [b"done\n", b"done\n"]


async def test_a_newcomer_is_told_what_happened(exabgp: Exabgp, daemon: Daemon) -> None:
    """Per neighbour what led to the last state, and no more than that."""
    await exabgp.mark()
    notification = event("10.0.0.2", "", kind="notification")
    for line in (
        *[event("10.0.0.1", "connected"), event("10.0.0.1", "down"), event("10.0.0.1", "up")],
        *[event("10.0.0.2", "up"), event("10.0.0.2", "connected"), notification, event("10.0.0.2", "down")],
        event("10.0.0.2", "connected"),
        *[b"garbage\n", b'{ "exabgp" nonsense\n', b'{ "exabgp": 1, "type": "state", "neighbor": [] }\n'],
    ):
        await exabgp.say(line)
    await exabgp.taken()
    await daemon.start()
    expected = [event("10.0.0.1", "up"), notification, event("10.0.0.2", "down"), event("10.0.0.2", "connected")]
    assert await daemon.accept() == expected


async def test_exabgp_is_read_when_nobody_listens(exabgp: Exabgp, daemon: Daemon) -> None:
    """ExaBGP stops speaking BGP when its pipe is full; what is remembered stays bounded."""
    await exabgp.mark()
    for index in range(300):
        await exabgp.say(event(f"10.{index // 250}.{index % 250}.1", "up", padding=50_000))
    await exabgp.say(b"done\n" * 100_000)
    for index in range(2000):
        await exabgp.say(event(f"10.1.{index // 250}.{index % 250}", "up"))
    await exabgp.taken()
    await daemon.start()
    assert len(await daemon.accept()) == 1024


async def test_a_daemon_that_does_not_read_is_dropped(exabgp: Exabgp, daemon: Daemon) -> None:
    """ExaBGP never waits for it; the next connection works."""
    await daemon.start()
    await exabgp.mark()
    await daemon.accept()
    reader, writer = daemon.reader, daemon.writer
    assert reader is not None
    assert writer is not None
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(400):
        await exabgp.say(event("10.0.0.1", "up", padding=50_000))
    await exabgp.mark()
    assert len(await daemon.accept()) == 1
    writer.close()


async def test_answers_to_a_lost_daemon_reach_nobody(exabgp: Exabgp, daemon: Daemon) -> None:
    """Its successor hears the answers to its own commands only, and the events."""
    await daemon.start()
    await exabgp.mark()
    await daemon.accept()
    daemon.say(b"one\ntwo\n")
    assert await exabgp.hear(2) == [b"one\n", b"two\n"]
    assert daemon.writer is not None
    daemon.writer.close()
    assert await exabgp.hear(2) == MARK
    await exabgp.say(b"done\n10.0.0.0/8 next-hop self\n" + event("10.0.0.1", "up") + b"error\n" + ANSWER)
    assert await daemon.accept() == [event("10.0.0.1", "up")]
    daemon.say(b"three\n")
    assert await exabgp.hear() == [b"three\n"]
    await exabgp.say(b"error\n")
    assert await daemon.hear() == b"error\n"


@pytest.mark.parametrize("line", ["announce ä\n".encode(), b"\xff\n", b"x" * 5000 + b"\n", b"x" * 5000])
async def test_what_would_harm_exabgp_does_not_reach_it(exabgp: Exabgp, daemon: Daemon, line: bytes) -> None:
    """One byte outside ASCII makes ExaBGP restart its process, a line without end fills its memory."""
    await daemon.start()
    await exabgp.mark()
    await daemon.accept()
    daemon.say(b"good\n" + line)
    assert await exabgp.hear() == [b"good\n"]
    await exabgp.mark()
    await daemon.accept()


async def test_a_daemon_is_waited_for(exabgp: Exabgp, daemon: Daemon) -> None:
    """It may come late, and come again."""
    await exabgp.mark()
    for _ in range(3):
        await daemon.start()
        await daemon.accept()
        daemon.say(b"hello\n")
        assert await exabgp.hear() == [b"hello\n"]
        daemon.stop()
        await exabgp.mark()


async def test_a_killed_worker_is_replaced_on_the_same_pipes(exabgp: Exabgp, daemon: Daemon) -> None:
    """ExaBGP sees nothing but a question that it answers."""
    await daemon.start()
    await exabgp.mark()
    await daemon.accept()
    before = daemon.shim_pid
    assert before != exabgp.process.pid
    os.kill(before, signal.SIGKILL)
    await exabgp.mark()
    await daemon.accept()
    assert daemon.shim_pid not in (before, exabgp.process.pid)
    assert exabgp.process.returncode is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_worker_and_guardian_end_together(exabgp: Exabgp, daemon: Daemon, number: signal.Signals) -> None:
    """ExaBGP ends its process by SIGTERM; a guardian that was killed leaves a worker that ends with its pipes."""
    await daemon.start()
    await exabgp.mark()
    await daemon.accept()
    worker = daemon.shim_pid
    exabgp.process.send_signal(number)
    exabgp.to_shim.close()
    await exabgp.process.wait()

    async def gone() -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, 0)
            return False
        return True

    await eventually(gone)
