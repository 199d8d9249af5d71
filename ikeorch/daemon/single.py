"""One process of a kind: a lock file beside its socket (I9)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ikeorch.errors import IkeorchError, NotPermittedError


@contextlib.contextmanager
def only_one(socket: Path, name: str) -> Iterator[None]:
    """Hold the lock that makes this the only process that serves a socket.

    Args:
        socket: the socket; the lock stands beside it.
        name: of the unit, for people.

    Raises:
        NotPermittedError: the lock cannot be made.
        IkeorchError: another one holds it.
    """
    path = socket.with_suffix(".lock")
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
                f"another {name} runs here", where=str(path), hint=f"stop it first: systemctl stop {name}"
            ) from None
        yield
    finally:
        os.close(descriptor)
