"""A user-mode Linux guest: boots in a third of a second, needs no privilege, no KVM and no image.

Its root is the host's own root, read-only below an overlay, so it has the same Python, charon and checkout; only
the folders named as shares are written through. It has no network to the host. One guest is pinned to one CPU:
unpinned, everything in it is four times slower.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lab.channel import Channel
from lab.control import LabError
from lab.kernel.find import find_kernel
from lab.namespaces import die_with_parent
from lab.state import claim_folder, state_folder, try_lock

REPO = Path(__file__).resolve().parent.parent
BOOT_SECONDS = 60.0
HALT_SECONDS = 10.0
_ST_NOEXEC = 8


@dataclass(frozen=True, kw_only=True)
class GuestOptions:
    """What a guest looks like.

    Attributes:
        cpu: The host's CPU that it is pinned to; None for one that no other guest of ours uses.
        memory: Its memory in MiB; taken from the host as it is touched.
        share: The host's folder that is writable in the guest, under the same path.
    """

    cpu: int | None = None
    memory: int = 3072
    share: Path = field(default_factory=lambda: REPO / "build")


def memory_folder(memory: int) -> Path:
    """Return a folder whose file system can back a guest's memory.

    Args:
        memory: MiB that the guest may use.

    Returns:
        /dev/shm where it is large enough and not noexec, else the folder for temporary files.

    Raises:
        LabError: Neither can.
    """
    for folder in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        if not os.access(folder, os.W_OK):
            continue
        stats = os.statvfs(folder)
        if not stats.f_flag & _ST_NOEXEC and stats.f_bavail * stats.f_frsize > memory * 1024 * 1024:
            return folder
    raise LabError(f"neither /dev/shm nor {tempfile.gettempdir()} has {memory} MiB free without noexec: set TMPDIR")


def claim_cpu(wanted: int | None) -> tuple[int, IO[str] | None]:
    """Choose the CPU for a guest.

    Args:
        wanted: A CPU that the user named, or None.

    Returns:
        The CPU, and the open lock file that marks it as used, for as long as it is open.
    """
    if wanted is not None:
        return wanted, None
    usable = sorted(os.sched_getaffinity(0))
    for cpu in usable:
        lock = try_lock(state_folder() / f"cpu{cpu}.lock")
        if lock is not None:
            return cpu, lock
    return usable[os.getpid() % len(usable)], None


def _prepare_kernel() -> None:
    """In the guest's kernel, before it boots: it holds a descriptor of ours for each file that is looked at inside."""
    die_with_parent()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Guest:
    """A running guest; a context manager that leaves nothing behind."""

    def __init__(self, options: GuestOptions) -> None:
        """Boot it and wait until it takes commands.

        Args:
            options: What it looks like.

        Raises:
            LabError: It does not boot; the text holds what its kernel and its init said last.
        """
        kernel = find_kernel()
        options.share.mkdir(parents=True, exist_ok=True)
        self._folder, self._alive = claim_folder("guest")
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        try:
            self.cpu, self._lock = claim_cpu(options.cpu)
            self._write_environment(options)
            with theirs, (self._folder / "console").open("wb") as console:
                self._process = subprocess.Popen(
                    self._command(kernel, options, theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, "TMPDIR": str(memory_folder(options.memory)), "HOME": str(self._folder)},
                    start_new_session=True,
                    preexec_fn=_prepare_kernel,  # noqa: PLW1509 - no threads here
                )
            self.channel.wait_ready(BOOT_SECONDS, self.alive)
        except LabError as error:
            said = self.last_words()
            self.stop()
            raise LabError(f"{error}\n{said}".rstrip()) from error
        except BaseException:
            self.stop()
            raise

    def _command(self, kernel: Path, options: GuestOptions, fd: int) -> list[str]:
        return [
            *("taskset", "-c", str(self.cpu), str(kernel), f"mem={options.memory}M", "ncpus=1", "seccomp=auto"),
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={self._folder}/init"),
            *("con=null", "con0=null,fd:1", f"ssl0=fd:{fd},fd:{fd}", "quiet"),
            *(f"uml_dir={self._folder}", "umid=uml", f"ikeorch_run={self._folder}"),
        ]

    def _write_environment(self, options: GuestOptions) -> None:
        if any(character in f"{self._folder}{options.share}{REPO}" for character in " \t\n,:'\""):
            raise LabError(f"the lab needs paths without blanks, commas and colons: {REPO}, {options.share}")
        shutil.copy(REPO / "lab" / "guest_init.sh", self._folder / "init")
        share = str(options.share.resolve())
        values = {
            "LAB_REPO": str(REPO),
            "LAB_SHARES": f"{self._folder} {share}",
            "LAB_SHARE": share,
            "LAB_PYTHON": sys.executable,
            "LAB_DEVICE": "/dev/ttyS0",
            "LAB_LOG": f"{self._folder}/agent.log",
            "PYTHONPATH": str(REPO),
        }
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
        (self._folder / "env").write_text(text)

    def alive(self) -> bool:
        """Return whether its kernel runs."""
        return self._process is not None and self._process.poll() is None

    def last_words(self) -> str:
        """Return the ends of its kernel's and its agent's output, for an error message."""
        texts = []
        for name in ("console", "agent.log"):
            path = self._folder / name
            if path.is_file():
                texts += path.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(texts)

    def stop(self) -> None:
        """Let it write its shares, kill it, and remove its folder."""
        process, self._process = self._process, None
        if process is not None:
            self.channel.halt(HALT_SECONDS)
            # SIGTERM can make it print for ever, and powering off takes longer than all the rest.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._alive.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
