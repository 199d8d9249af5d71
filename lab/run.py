"""`ikeorch lab run`: one command on a kernel that can do all that a lab needs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from lab.channel import Channel, Streams, run_command
from lab.guest import BOOT_SECONDS, HALT_SECONDS, REPO, Guest, GuestOptions
from lab.kernel.find import host_can
from lab.namespaces import die_with_parent
from lab.wire import Start

KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "CI", "NO_COLOR", "COLUMNS", "PYTEST_ADDOPTS")
"""Variables of the caller that a command in a guest sees, beside those that begin with IKEORCH_."""


class HostNamespaces:
    """The host's own kernel, in new mount, PID and network namespaces; they end with this object."""

    def __init__(self, share: Path) -> None:
        """Enter them by a child process, which serves the channel.

        Raises:
            LabError: The kernel or the user's rights do not allow it.
        """
        share.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        with theirs:
            command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
            self._process = subprocess.Popen(
                [*command, "-m", "lab.agent", "--fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd=REPO,
                env={**os.environ, "PYTHONPATH": str(REPO), "LAB_SHARE": str(share.resolve())},
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - no threads here
            )
        try:
            self.channel.wait_ready(BOOT_SECONDS, lambda: self._process.poll() is None)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process in the namespaces, and the namespaces with them."""
        self.channel.halt(HALT_SECONDS)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def boot(on: str, options: GuestOptions) -> Guest | HostNamespaces:
    """Start a lab kernel.

    Args:
        on: "host", "guest", or "auto" for the host where it can and else a guest.
        options: For a guest; the share serves both.

    Returns:
        A context manager with a ready channel.

    Raises:
        LabError: It does not come up.
    """
    if on == "host" or (on == "auto" and host_can()):
        return HostNamespaces(options.share)
    return Guest(options)


class _EndedError(BaseException):
    """We were told to end, by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _end(number: int, frame: FrameType | None) -> None:
    raise _EndedError(number)


def kept_environment(path: Path) -> dict[str, str]:
    """Return the caller's variables that a command on a lab kernel sees.

    Args:
        path: Folder of the Python in use, put first in PATH.
    """
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("IKEORCH_")}
    sbin = "/usr/local/sbin:/usr/sbin:/sbin"
    return kept | {"PATH": f"{path}:{kept.get('PATH', '/usr/local/bin:/usr/bin:/bin')}:{sbin}"}


def run(argv: tuple[str, ...], *, on: str, options: GuestOptions, timeout: float) -> int:
    """Run one command on a lab kernel, its output going to ours as it comes.

    Args:
        argv: Program and arguments.
        on: See boot.
        options: See boot.
        timeout: Seconds for the command.

    Returns:
        Its exit code, or 128 + signal when we were interrupted.

    Raises:
        LabError: The kernel did not come up or hung, or the time is over.
    """
    previous = {number: signal.signal(number, _end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with boot(on, options) as kernel:
            start = Start(
                id=1, argv=argv, cwd=str(Path.cwd()), env=kept_environment(Path(sys.executable).parent), tty=False
            )
            sys.stdout.flush()
            return run_command(kernel.channel, start, Streams(), timeout=timeout)
    except _EndedError as ended:
        return 128 + ended.number
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
