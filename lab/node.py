"""A running node, as scenarios and tests use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from lab.control import LabError, RemoteChild, request
from lab.daemons import DAEMONS, DaemonSpec
from lab.waiting import wait_until

_REPO = Path(__file__).resolve().parent.parent


class CommandFailedError(LabError):
    """A command in a node failed. Its `result` holds the exit code and both outputs."""

    def __init__(self, node: str, result: subprocess.CompletedProcess[str]) -> None:
        """Say which command, and what it said."""
        said = (result.stderr or result.stdout).strip()
        super().__init__(f"{node}: `{' '.join(result.args)}` exited with {result.returncode}: {said}")
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """What a node's supervisor knows of a daemon.

    Attributes:
        pid: Its process in the node's PID namespace, None while it does not run.
        starts: How often it was started.
        last_exit: Its last exit code, negative for a signal; None before its first end.
        wanted: Whether it is restarted when it ends.
    """

    pid: int | None
    starts: int
    last_exit: int | None
    wanted: bool


class NodeProcess:
    """A process in a node. As a context manager it is killed at the end if it still runs."""

    def __init__(
        self, child: RemoteChild, stdin: IO[str] | None, stdout: IO[str] | None, stderr: IO[str] | None
    ) -> None:
        self._child = child
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.pid = child.pid

    def poll(self) -> int | None:
        """Return its exit code (negative for a signal), or None while it runs."""
        return self._child.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; see RemoteChild.wait."""
        return self._child.wait(timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal to its process group."""
        self._child.send_signal(number)

    def terminate(self, timeout: float = 10.0) -> int:
        """Send SIGTERM and wait for its end.

        Args:
            timeout: Seconds until SIGKILL.

        Returns:
            Its exit code.
        """
        self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(timeout)
        except TimeoutError:
            self._child.send_signal(signal.SIGKILL)
            return self._child.wait(10)

    def close(self) -> None:
        """Kill it if it still runs, and close its streams."""
        self._child.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Node:
    """A node of a running lab."""

    def __init__(self, name: str, pid: int, control: Path, logs: Path) -> None:
        self.name = name
        self.pid = pid
        self.control = control
        self.logs = logs

    def path(self, inside: str) -> Path:
        """Return a path outside for one inside the node, for files and unix sockets (not across absolute links)."""
        return Path(f"/proc/{self.pid}/root") / inside.lstrip("/")

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout: float = 10.0,
        input: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the node and wait for it.

        Args:
            argv: Program and arguments.
            check: Whether a failure raises.
            timeout: Seconds, then it is killed.
            input: Text for its standard input.
            env: Variables to add.
            cwd: Its working directory; the lab's own when None.

        Returns:
            Exit code (negative for a signal) and both outputs as text.

        Raises:
            CommandFailedError: It failed, and `check` is set.
            LabError: It could not be started, or the time is over.
        """
        files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        try:
            os.write(files[0], input.encode())
            os.lseek(files[0], 0, os.SEEK_SET)
            child = RemoteChild(self.control, argv, files, env=env, cwd=cwd)
            try:
                code = child.wait(timeout)
            except TimeoutError as error:
                said = "".join(os.pread(fd, 1000, 0).decode(errors="replace") for fd in files[1:])
                raise LabError(f"{self.name}: {error}: {said}".rstrip(": ")) from error
            finally:
                child.close()
            out, err = (_read_all(fd) for fd in files[1:])
        finally:
            for fd in files:
                os.close(fd)
        result = subprocess.CompletedProcess(list(argv), code, out, err)
        if check and code != 0:
            raise CommandFailedError(self.name, result)
        return result

    def json(self, argv: Sequence[str], *, timeout: float = 10.0) -> Any:  # noqa: ANN401 - whatever the command prints
        """Run a command in the node and return its output, read as JSON; see run."""
        text = self.run(argv, timeout=timeout).stdout
        return json.loads(text) if text.strip() else []

    def python(
        self, module: str, *arguments: str, check: bool = True, timeout: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a module of the checkout in the node; see run."""
        return self.run([sys.executable, "-m", module, *arguments], check=check, timeout=timeout, cwd=str(_REPO))

    def popen(
        self,
        argv: Sequence[str],
        *,
        stdin: bool = False,
        stdout: bool | int = True,
        stderr: bool | int = 2,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> NodeProcess:
        """Start a command in the node.

        Args:
            argv: Program and arguments.
            stdin: Whether its input is a pipe of ours; empty otherwise.
            stdout: True for a pipe of ours, False for /dev/null, or a descriptor.
            stderr: As stdout.
            env: Variables to add.
            cwd: Its working directory; the lab's own when None.

        Returns:
            The process.

        Raises:
            LabError: It could not be started.
        """
        theirs: list[int] = []
        opened: list[int] = []
        ours: list[IO[str] | None] = [None, None, None]
        try:
            for index, kind in enumerate((stdin, stdout, stderr)):
                if kind is True:
                    reader, writer = os.pipe()
                    theirs.append(reader if index == 0 else writer)
                    ours[index] = os.fdopen(writer if index == 0 else reader, "w" if index == 0 else "r")
                    opened.append(theirs[-1])
                elif kind is False:
                    theirs.append(os.open(os.devnull, os.O_RDWR))
                    opened.append(theirs[-1])
                else:
                    theirs.append(kind)
            child = RemoteChild(self.control, argv, theirs, env=env, cwd=cwd)
        except BaseException:
            for stream in ours:
                if stream is not None:
                    stream.close()
            raise
        finally:
            for fd in opened:
                os.close(fd)
        return NodeProcess(child, ours[0], ours[1], ours[2])

    @property
    def daemons(self) -> dict[str, DaemonState]:
        """The daemons that were started in this node, as they are now."""
        answer = request(self.control, {"op": "daemons"})["daemons"]
        return {name: DaemonState(**state) for name, state in answer.items()}

    def start_daemon(self, daemon: str | DaemonSpec, *, restart: bool = True, ready: float | None = 10.0) -> int:
        """Start a daemon that the node's supervisor keeps alive.

        Args:
            daemon: A name of the lab's table, or how it is run.
            restart: Whether it is restarted as its unit would.
            ready: Seconds to wait until it answers; None not to wait.

        Returns:
            Its PID in the node.

        Raises:
            LabError: It cannot be started, or is not ready within the time.
        """
        spec = DAEMONS[daemon] if isinstance(daemon, str) else daemon
        answer = request(self.control, spec.start_request(restart=restart))
        if ready is not None:
            self.wait_ready(spec, ready)
        return int(answer["pid"])

    def stop_daemon(self, name: str, number: int = signal.SIGTERM, timeout: float = 10.0) -> int:
        """End a daemon for good.

        Args:
            name: Its name.
            number: The signal that asks it to.
            timeout: Seconds until SIGKILL.

        Returns:
            Its exit code, negative for a signal.

        Raises:
            LabError: It was never started.
        """
        body = {"op": "daemon-stop", "name": name, "signal": int(number), "timeout": timeout}
        return int(request(self.control, body, timeout=timeout + 10)["exit"])

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to a daemon; what follows is up to its restart policy.

        Args:
            name: Its name.
            number: The signal.

        Returns:
            The PID that got it.

        Raises:
            LabError: It does not run.
        """
        return int(request(self.control, {"op": "daemon-signal", "name": name, "signal": int(number)})["pid"])

    def answers(self, path: str) -> bool:
        """Return whether something accepts connections on a unix socket of the node."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.connect(str(self.path(path)))
            except OSError:
                return False
        return True

    def wait_ready(self, daemon: str | DaemonSpec, timeout: float = 10.0) -> None:
        """Wait until a daemon's socket accepts connections.

        Args:
            daemon: A name of the lab's table, or how it is run.
            timeout: Seconds.

        Raises:
            LabError: It does not within the time; the text holds the end of its log.
        """
        spec = DAEMONS[daemon] if isinstance(daemon, str) else daemon
        if not spec.socket:
            return
        try:
            wait_until(lambda: self.answers(spec.socket), f"{self.name}: {spec.name} is ready", timeout)
        except LabError as error:
            raise LabError(f"{error}\n{self.log_tail(spec.name)}".rstrip()) from error

    def log(self, name: str) -> str:
        """Return what a daemon logged so far: its own file /var/log/NAME.log, and what it printed."""
        files = (self.logs / f"{name}.log", self.logs / f"{name}.out")
        return "".join(path.read_text(errors="replace") for path in files if path.is_file())

    def log_tail(self, name: str, lines: int = 15) -> str:
        """Return the last lines of log(name)."""
        return "\n".join(self.log(name).splitlines()[-lines:])


def _read_all(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read().decode(errors="replace")
