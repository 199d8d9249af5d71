"""Linux namespaces and mounts, by the system calls that Python 3.11 does not have yet."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_MS_NONE = 0
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling process (for PID: its later children) into new namespaces, as its manual page says.

    Raises:
        OSError: The kernel or the user's rights do not allow it.
    """
    _check(_libc.unshare(flags), "unshare")


def setns(path: Path, kind: int) -> None:
    """Move the calling process (its children, for PID) into an existing namespace, as its manual page says.

    Args:
        path: Its file under /proc/PID/ns.
        kind: One of the CLONE_ flags, as a check.

    Raises:
        OSError: It is gone, or the user may not.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, kind), f"setns {path}")
    finally:
        os.close(fd)


def mount(source: str, target: str, kind: str = "", options: str = "", flags: int = _MS_NONE) -> None:
    """Mount a file system, as its manual page says.

    Raises:
        OSError: The kernel refuses it.
    """
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _check(result, f"mount {kind or 'bind'} on {target}")


def bind(source: str, target: str) -> None:
    """Show a file or folder at a second place."""
    mount(source, target, flags=_MS_BIND)


def unmount(target: str) -> None:
    """Take what is mounted on a file or folder away, also while it is in use.

    Raises:
        OSError: Nothing is mounted there, or the user may not.
    """
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def make_mounts_private() -> None:
    """Keep later mounts out of other namespaces, and theirs out of this one."""
    mount("none", "/", flags=_MS_REC | _MS_PRIVATE)


def die_with_parent() -> None:
    """Arrange that the calling process is killed when its parent ends, however that ends; see prctl(2)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_link_up(name: str) -> None:
    """Bring an interface of the calling process's network namespace up.

    Raises:
        OSError: There is no such interface, or the user may not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        got = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sh22x", name.encode(), 0))
        flags = struct.unpack_from("16sh", got)[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", name.encode(), flags | _IFF_UP))
