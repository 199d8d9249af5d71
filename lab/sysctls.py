"""Kernel settings of a node that are the lab's own, and how any are written."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc/sys")


def own_sysctls(name: str) -> tuple[tuple[str, str], ...]:
    """Return the settings that every node gets beside those of its topology.

    All namespaces of one kernel share one multipath hash seed, by which routers in a row would choose alike; so each
    node gets its own. Duplicate address detection would only delay the start.

    Args:
        name: The node's name.
    """
    seed = zlib.crc32(name.encode()) | 1
    return (
        ("net.ipv4.fib_multipath_hash_seed", str(seed)),
        ("net.ipv6.conf.all.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
    )


def write_sysctls(settings: Iterable[tuple[str, str]]) -> None:
    """Write settings, by dotted name, for the calling process's namespaces; those that this kernel lacks are skipped.

    Raises:
        OSError: The user may not, or the kernel refuses a value.
    """
    for name, value in settings:
        path = _PROC / name.replace(".", "/")
        if path.exists():
            path.write_text(value)
