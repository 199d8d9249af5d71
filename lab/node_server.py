"""The first process of a node: runs commands and keeps daemons alive, as systemd would on a real gateway.

It answers requests on the node's control socket (lab/control.py is the client). One thread, one selector. As PID 1
it also reaps what its descendants leave behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.control import MAX_PACKET

_MAX_FDS = 3


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def make_runtime_folder(path: str, owner: str) -> None:
    """Make a daemon's folder below /run, as RuntimeDirectory= of a unit does.

    Args:
        path: The folder.
        owner: A user, and the name of its group.

    Raises:
        OSError: It cannot be made, or there is no such user here (its package is missing).
    """
    Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        shutil.chown(path, owner, owner)
    except LookupError as error:
        raise OSError(errno.ENOENT, f"{path}: {error}") from error


@dataclass(kw_only=True)
class Daemon:
    """A daemon that is kept alive.

    Attributes:
        name: Its name in the lab's table.
        argv: Program and arguments.
        env: Variables beside the node's own.
        restart_after: Seconds from its end to its restart, or None to leave it dead.
        runtime_folder: A folder that is made before it starts, or None.
        owner: User and group of that folder.
        pid: Its process, or None while there is none.
        starts: How often it was started.
        last_exit: Its last exit code, negative for a signal; None before its first end.
        wanted: Whether it shall run.
        due: When it is started again, on the monotonic clock; None when it is not.
        stopper: The connection that waits for its end.
        kill_at: When a stop becomes a SIGKILL.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    restart_after: float | None
    runtime_folder: str | None
    owner: str
    pid: int | None = None
    starts: int = 0
    last_exit: int | None = None
    wanted: bool = True
    due: float | None = None
    stopper: socket.socket | None = None
    kill_at: float | None = None


class NodeServer:
    """Serves the requests of one node."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, socket.socket] = {}
        self._daemons: dict[str, Daemon] = {}

    def serve(self) -> None:
        """Answer requests for ever, and keep the daemons alive that were started before."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader, 4096))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while True:
            self._reap()
            self._run_timers()
            for key, _ in self._selector.select(self._next_timer()):
                handler: Callable[[], object] = key.data
                handler()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._on_request(connection))

    def _on_request(self, connection: socket.socket) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(connection, MAX_PACKET, _MAX_FDS)
        except OSError:
            data, fds = b"", []
        try:
            if not data:
                self._forget(connection)
                return
            self._answer(connection, self._handle(connection, json.loads(data), fds))
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            self._answer(connection, {"error": f"{type(error).__name__}: {error}"})
        finally:
            for fd in fds:
                os.close(fd)

    def _forget(self, connection: socket.socket) -> None:
        """The caller has gone: what it started and still runs is killed."""
        self._selector.unregister(connection)
        connection.close()
        for pid, owner in list(self._children.items()):
            if owner is connection:
                del self._children[pid]
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        for daemon in self._daemons.values():
            if daemon.stopper is connection:
                daemon.stopper = None

    @staticmethod
    def _answer(connection: socket.socket, answer: dict[str, Any] | None) -> None:
        if answer is not None:
            with contextlib.suppress(OSError):
                connection.send(json.dumps(answer).encode())

    def _handle(self, connection: socket.socket, body: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        match body["op"]:
            case "spawn":
                pid = self._spawn(body["argv"], body["env"], fds, cwd=body["cwd"], tty=body["tty"])
                self._children[pid] = connection
                return {"pid": pid}
            case "signal":
                for pid, owner in self._children.items():
                    if owner is connection:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(pid, body["signal"])
                return None
            case "daemon-start":
                return self.start_daemon(body)
            case "daemon-stop":
                return self._stop_daemon(connection, body)
            case "daemon-signal":
                daemon = self._running(body["name"])
                assert daemon.pid is not None
                os.kill(daemon.pid, body["signal"])
                return {"pid": daemon.pid}
            case "daemons":
                return {"daemons": {daemon.name: self._describe(daemon) for daemon in self._daemons.values()}}
            case other:
                raise ValueError(f"unknown operation {other!r}")

    @staticmethod
    def _spawn(argv: list[str], env: dict[str, str], fds: list[int], *, cwd: str | None, tty: bool) -> int:
        process = subprocess.Popen(
            argv,
            stdin=fds[0],
            stdout=fds[1],
            stderr=fds[2],
            env={**os.environ, **env},
            cwd=cwd,
            start_new_session=not tty,
            preexec_fn=_take_terminal if tty else None,  # noqa: PLW1509 - no threads here
        )
        process.returncode = 0  # it is reaped by _reap; Popen shall not try
        return process.pid

    def start_daemon(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start a daemon and keep it alive.

        Args:
            body: A DaemonSpec's start_request.

        Returns:
            Its process under "pid".

        Raises:
            OSError: It cannot be started.
            ValueError: It runs already.
        """
        name = body["name"]
        old = self._daemons.get(name)
        if old is not None and old.pid is not None:
            raise ValueError(f"{name} runs already as process {old.pid}")
        fields = ("argv", "env", "restart_after", "runtime_folder", "owner")
        daemon = Daemon(name=name, **{key: body[key] for key in fields})
        self._daemons[name] = daemon
        self._launch(daemon)
        return {"pid": daemon.pid}

    def _launch(self, daemon: Daemon) -> None:
        daemon.due = None
        if daemon.runtime_folder is not None:
            make_runtime_folder(daemon.runtime_folder, daemon.owner)
        null = os.open("/dev/null", os.O_RDONLY)
        log = os.open(f"/var/log/{daemon.name}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            daemon.pid = self._spawn(daemon.argv, daemon.env, [null, log, log], cwd="/", tty=False)
            daemon.starts += 1
        finally:
            os.close(null)
            os.close(log)

    def _stop_daemon(self, connection: socket.socket, body: dict[str, Any]) -> dict[str, Any] | None:
        daemon = self._daemons.get(body["name"])
        if daemon is None:
            raise ValueError(f"{body['name']} was never started")
        daemon.wanted, daemon.due = False, None
        if daemon.pid is None:
            return {"exit": daemon.last_exit}
        daemon.stopper, daemon.kill_at = connection, time.monotonic() + body["timeout"]
        os.kill(daemon.pid, body["signal"])
        return None

    def _running(self, name: str) -> Daemon:
        daemon = self._daemons.get(name)
        if daemon is None or daemon.pid is None:
            raise OSError(errno.ESRCH, f"{name} does not run")
        return daemon

    @staticmethod
    def _describe(daemon: Daemon) -> dict[str, object]:
        return {"pid": daemon.pid, "starts": daemon.starts, "last_exit": daemon.last_exit, "wanted": daemon.wanted}

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if (connection := self._children.pop(pid, None)) is not None:
                self._answer(connection, {"exit": code})
            for daemon in self._daemons.values():
                if daemon.pid == pid:
                    self._on_daemon_end(daemon, code)

    def _on_daemon_end(self, daemon: Daemon, code: int) -> None:
        assert daemon.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGKILL)  # as KillMode=control-group: its children end with it
        daemon.pid, daemon.last_exit, daemon.kill_at = None, code, None
        if daemon.stopper is not None:
            self._answer(daemon.stopper, {"exit": code})
            daemon.stopper = None
        if daemon.wanted and daemon.restart_after is not None:
            daemon.due = time.monotonic() + daemon.restart_after

    def _next_timer(self) -> float | None:
        times = [at for daemon in self._daemons.values() for at in (daemon.due, daemon.kill_at) if at is not None]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def _run_timers(self) -> None:
        now = time.monotonic()
        for daemon in self._daemons.values():
            if daemon.kill_at is not None and daemon.kill_at <= now and daemon.pid is not None:
                daemon.kill_at = None
                os.kill(daemon.pid, signal.SIGKILL)
            if daemon.due is not None and daemon.due <= now:
                try:
                    self._launch(daemon)
                except OSError as error:
                    daemon.due = now + (daemon.restart_after or 1.0)
                    with contextlib.suppress(OSError), Path(f"/var/log/{daemon.name}.out").open("a") as log:
                        log.write(f"lab: cannot start {daemon.argv[0]}: {error}\n")
