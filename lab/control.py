"""Client side of a node's control socket: start processes inside a node, and steer its daemons.

A request is one packet of JSON on a SOCK_SEQPACKET unix socket, with the file descriptors that the new process gets
as its standard streams. So nothing is copied on the way: the process in the node writes straight into the caller's
pipe, file or terminal. The server is lab/supervisor.py.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_PACKET = 128 * 1024


class LabError(Exception):
    """Something in the lab did not work; the text says what and what to do."""


class NodeGoneError(LabError):
    """A node's supervisor does not answer: the node has ended."""


def request(path: Path, body: Mapping[str, object], fds: Sequence[int] = (), timeout: float = 30.0) -> dict[str, Any]:
    """Send one request and wait for its only answer.

    Args:
        path: The node's control socket.
        body: The request, with its operation under "op".
        fds: File descriptors to hand over.
        timeout: Seconds to wait.

    Returns:
        The answer.

    Raises:
        LabError: The node refused, with its reason.
    """
    with _connect(path) as sock:
        return _ask(sock, body, fds, timeout)


def _connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise NodeGoneError(f"node {path.stem}: no supervisor answers at {path} ({error.strerror})") from error
    return sock


def _ask(sock: socket.socket, body: Mapping[str, object], fds: Sequence[int], timeout: float) -> dict[str, Any]:
    sock.settimeout(timeout)
    data = json.dumps(body).encode()
    try:
        if fds:
            socket.send_fds(sock, [data], list(fds))
        else:
            sock.send(data)
        answer = sock.recv(MAX_PACKET)
    except TimeoutError as error:
        raise LabError(f"a node's supervisor did not answer {body.get('op')!r} within {timeout:g} s") from error
    except OSError as error:
        raise NodeGoneError(f"a node's supervisor went away during {body.get('op')!r}: {error}") from error
    if not answer:
        raise NodeGoneError(f"a node's supervisor closed the connection at {body.get('op')!r}")
    result: dict[str, Any] = json.loads(answer)
    if "error" in result:
        raise LabError(str(result["error"]))
    return result


class RemoteChild:
    """A process inside a node. Closing it kills the process's group if it still runs."""

    def __init__(
        self,
        path: Path,
        argv: Sequence[str],
        fds: Sequence[int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: bool = False,
    ) -> None:
        """Start the process.

        Args:
            path: The node's control socket.
            argv: Program and arguments.
            fds: Its standard input, output and error.
            env: Variables to add to the node's environment.
            cwd: Its working directory, or None for the lab's.
            tty: Whether the first descriptor is a terminal that becomes its controlling one.

        Raises:
            LabError: It could not be started.
        """
        self.argv = tuple(argv)
        self._sock = _connect(path)
        self._code: int | None = None
        body = {"op": "spawn", "argv": list(argv), "env": dict(env or {}), "cwd": cwd, "tty": tty}
        try:
            self.pid: int = _ask(self._sock, body, fds, 30.0)["pid"]
        except BaseException:
            self._sock.close()
            raise

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process has ended."""
        return self._sock.fileno()

    def poll(self) -> int | None:
        """Return the exit code (negative for a signal), or None while it runs."""
        if self._code is None:
            self._sock.setblocking(False)
            try:
                self._take(self._sock.recv(MAX_PACKET))
            except BlockingIOError:
                return None
            except OSError:
                self._take(b"")
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process.

        Args:
            timeout: Seconds to wait, or None for ever.

        Returns:
            The exit code, negative for a signal.

        Raises:
            TimeoutError: It still runs.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            self._sock.settimeout(left)
            try:
                self._take(self._sock.recv(MAX_PACKET))
            except TimeoutError:
                raise TimeoutError(f"{' '.join(self.argv)} still runs after {timeout:g} s") from None
            except OSError:
                self._take(b"")
        return self._code

    def _take(self, answer: bytes) -> None:
        # A node that ends takes its processes with it: they were killed.
        self._code = int(json.loads(answer)["exit"]) if answer else -signal.SIGKILL

    def send_signal(self, number: int) -> None:
        """Send a signal to the process's group; does nothing once it has ended.

        Args:
            number: The signal.
        """
        if self.poll() is None:
            try:
                self._sock.setblocking(True)
                self._sock.send(json.dumps({"op": "signal", "signal": int(number)}).encode())
            except OSError:
                self._take(b"")

    def close(self) -> None:
        """Kill the process's group if it still runs, and let go of it."""
        self._sock.close()
        if self._code is None:
            self._code = -signal.SIGKILL
