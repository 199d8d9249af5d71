"""One process of a kind: lock files beside what only one may use (I9)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ikeorch.errors import IkeorchError, NotPermittedError


@contextlib.contextmanager
def only_one(name: str, *resources: Path) -> Iterator[None]:
    """Hold the locks that make this the only process that uses some sockets or folders.

    Args:
        name: of the unit, for people.
        resources: each has its lock beside it.

    Raises:
        NotPermittedError: a lock cannot be made.
        IkeorchError: another process holds one.
    """
    with contextlib.ExitStack() as stack:
        for resource in resources:
            stack.enter_context(_locked(name, resource))
        yield


@contextlib.contextmanager
def _locked(name: str, resource: Path) -> Iterator[None]:
    path = resource.with_name(f"{resource.name}.{name}.lock")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotPermittedError(
            f"the lock cannot be made: {error.strerror}", where=str(path), hint=f"run {name} as root"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IkeorchError(
                f"another {name} uses {resource}", where=str(path), hint=f"stop it first: systemctl stop {name}"
            ) from None
        yield
    finally:
        os.close(descriptor)
