"""A network namespace for this thread, and iproute2 in it: the view from outside the adapter."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def fresh_namespace() -> Iterator[None]:
    """Stand in a new network namespace with its loopback up; it ends with this block."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if _libc.unshare(CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        ip("link", "set", "lo", "up")
        yield
    finally:
        set_namespace(before)
        os.close(before)


def set_namespace(namespace: int) -> None:
    """Move this thread into the network namespace of a descriptor."""
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def standing_in(namespace: int) -> Iterator[None]:
    """Stand in the network namespace of a descriptor for this block."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        set_namespace(namespace)
        yield
    finally:
        set_namespace(before)
        os.close(before)


def run(*command: str) -> str:
    """Run a program that must succeed; its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def ip(*arguments: str) -> str:
    """Run ip(8)."""
    return run("ip", *arguments)


def ip_json(*arguments: str) -> list[dict[str, Any]]:
    """Ask ip(8) for JSON."""
    answer: list[dict[str, Any]] = json.loads(ip("-j", "-d", *arguments) or "[]")
    return answer


def add_device(name: str) -> None:
    """A device that is up: one end of a pair."""
    ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    ip("link", "set", name, "up")
    ip("link", "set", f"{name}p", "up")


@cache
def has_xfrm() -> bool:
    """Whether this kernel has XFRM interfaces and we may make some."""
    if os.geteuid() != 0:
        return False
    with fresh_namespace():
        done = subprocess.run(
            ["ip", "link", "add", "probe", "type", "xfrm", "dev", "lo", "if_id", "1"],
            capture_output=True,
            timeout=10,
            check=False,
        )
    return done.returncode == 0
