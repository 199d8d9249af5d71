"""A lab in the background: what `ikeorch lab up` leaves behind, and how its other commands find it.

There is one at a time for each user. Its keeper (lab/keeper.py) holds a lock and writes down where it listens.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.channel import Channel
from lab.control import LabError
from lab.state import state_folder, try_lock

UP_SECONDS = 180.0
DOWN_SECONDS = 30.0
_REPO = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node of the background lab: name, role, and its control socket on the lab's kernel."""

    name: str
    role: str
    socket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLab:
    """The background lab.

    Attributes:
        name: The topology's name.
        topology: The topology's file.
        kernel: "guest" or "host".
        pid: The keeper's process.
        since: Seconds since the epoch at which it was ready.
        socket: Where the keeper listens.
        nodes: Its nodes.
    """

    name: str
    topology: str
    kernel: str
    pid: int
    since: float
    socket: str
    nodes: tuple[HeldNode, ...]


def record_path() -> Path:
    """Return the file in which the background lab is written down."""
    return state_folder() / "lab.json"


def lock_path() -> Path:
    """Return the file that a keeper holds locked for its life."""
    return state_folder() / "keeper.lock"


def write_record(lab: HeldLab) -> None:
    """Write the background lab down, in one step."""
    path = record_path()
    part = path.with_suffix(".part")
    part.write_text(json.dumps(dataclasses.asdict(lab)))
    part.replace(path)


def running() -> HeldLab | None:
    """Return the background lab, None where there is none; what a killed keeper wrote is removed."""
    lock = try_lock(lock_path())
    if lock is not None:
        with lock:
            record_path().unlink(missing_ok=True)
        return None
    try:
        body = json.loads(record_path().read_text())
    except (OSError, ValueError):
        return None  # its keeper is just starting or ending
    nodes = tuple(HeldNode(**node) for node in body.pop("nodes"))
    return HeldLab(**body, nodes=nodes)


def need_running() -> HeldLab:
    """Return the background lab.

    Raises:
        LabError: There is none.
    """
    lab = running()
    if lab is None:
        raise LabError("no lab is up: start one with `ikeorch lab up`")
    return lab


def connect(lab: HeldLab) -> Channel:
    """Open a channel through the lab's keeper.

    Raises:
        LabError: It does not answer.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(lab.socket)
    except OSError as error:
        sock.close()
        raise LabError(f"the lab's keeper (process {lab.pid}) does not answer: {error.strerror}") from error
    return Channel(sock)


def start(arguments: list[str], progress: Callable[[str], None]) -> HeldLab:
    """Start a keeper and wait until its lab stands.

    Args:
        arguments: For lab.keeper.
        progress: Called with each step as it begins.

    Returns:
        The lab.

    Raises:
        LabError: There is one already, or it does not come up.
    """
    if (lab := running()) is not None:
        raise LabError(f"the lab {lab.name} is up already: `ikeorch lab down` ends it")
    keeper = subprocess.Popen(
        [sys.executable, "-m", "lab.keeper", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=_REPO,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    deadline = time.monotonic() + UP_SECONDS
    said: list[str] = []
    try:
        for line in _lines(keeper.stdout.fileno(), deadline):
            said.append(line)
            if line == "ready" and (lab := running()) is not None:
                return lab
            progress(line)
    except BaseException:
        os.kill(keeper.pid, signal.SIGTERM)
        keeper.wait(DOWN_SECONDS)
        raise
    finally:
        keeper.stdout.close()
    if keeper.poll() is None:
        os.kill(keeper.pid, signal.SIGTERM)
    keeper.wait(DOWN_SECONDS)
    raise LabError(f"the lab did not come up: {said[-1] if said else 'its keeper died'}")


def _lines(fd: int, deadline: float) -> Iterator[str]:
    """Yield the lines of a pipe as they come, until its end or the deadline."""
    rest = b""
    while (left := deadline - time.monotonic()) > 0 and select.select([fd], [], [], left)[0]:
        data = os.read(fd, 4096)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def stop() -> str | None:
    """End the background lab and wait until nothing of it is left.

    Returns:
        Its name, or None where there was none.

    Raises:
        LabError: It does not end.
    """
    lab = running()
    if lab is None:
        return None
    channel = connect(lab)
    channel.halt(0.0)
    deadline = time.monotonic() + DOWN_SECONDS
    while time.monotonic() < deadline:
        if running() is None:
            lock = try_lock(lock_path())
            if lock is not None:
                lock.close()
                channel.close()
                return lab.name
        time.sleep(0.02)
    raise LabError(f"the lab's keeper does not end: kill -9 {lab.pid}")
