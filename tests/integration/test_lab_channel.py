"""What a command of the lab reads: any amount, at its own pace, and never more on the line than it holds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.channel import Channel, Streams, run_command
from lab.wire import MAX_CHUNK, Exit, Feed, Start, Taken

REPO = Path(__file__).resolve().parent.parent.parent
LARGE = bytes(range(256)) * 2048


@pytest.fixture
def agent() -> Iterator[Channel]:
    """An agent of this machine's own, ready."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "lab.agent", "--fd", str(theirs.fileno())]
    with subprocess.Popen(command, cwd=REPO, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        channel = Channel(ours)
        channel.wait_ready(20, lambda: process.poll() is None)
        yield channel
        channel.halt(10)
        channel.close()


def run(channel: Channel, *argv: str) -> tuple[int, bytes]:
    """A command that is given half a megabyte: its exit code and what it printed."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(LARGE)
        given.seek(0)
        streams = Streams(stdin=given.fileno(), stdout=printed.fileno())
        code = run_command(channel, Start(id=1, argv=argv), streams, timeout=30)
        printed.seek(0)
        return code, printed.read()


def test_a_large_input_arrives_whole(agent: Channel) -> None:
    """Half a megabyte there and back, byte by byte."""
    assert run(agent, "cat") == (0, LARGE)


def test_a_command_that_reads_late_or_never_stops_nobody(agent: Channel) -> None:
    """Its pipe is full; the agent goes on, and tells its end; the next command runs."""
    code, printed = run(agent, "sh", "-c", "sleep 0.5; head -c 100000 | wc -c")
    assert (code, printed.strip()) == (0, b"100000")
    assert run(agent, "sh", "-c", "sleep 0.2; exit 5") == (5, b"")
    assert run(agent, "cat") == (0, LARGE)


def test_the_next_piece_waits_until_the_last_one_was_taken() -> None:
    """One piece at a time is under way, of a size that a serial line's buffer holds."""
    ours, theirs = socket.socketpair()
    channel, far_end = Channel(ours), Channel(theirs)
    reader, writer = os.pipe()
    os.write(writer, LARGE[: 3 * MAX_CHUNK])
    os.close(writer)
    worker = threading.Thread(target=run_command, args=(channel, Start(id=1, argv=("cat",)), Streams(stdin=reader)))
    worker.start()
    pieces: list[int] = []
    while len(pieces) < 4:
        time.sleep(0.1)
        feeds = [message for message in far_end.take() if isinstance(message, Feed)]
        assert len(feeds) <= 1
        pieces.extend(len(feed.data) for feed in feeds)
        if feeds:
            far_end.send(Taken(id=1))
    far_end.send(Exit(id=1, code=0))
    worker.join(10)
    os.close(reader)
    for each in (channel, far_end):
        each.close()
    assert pieces == [MAX_CHUNK] * 3 + [0]
