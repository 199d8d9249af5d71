"""Folders of running labs, and how what a killed one left is found.

Each folder holds a lock file that its owner keeps locked while it lives. The kernel drops the lock however the owner
ends, so a folder whose lock is free is rubbish: the next lab to start sweeps it away.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

_LOCK = "owner.lock"


def state_folder() -> Path:
    """Return this user's folder for the state of labs, made on first use."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = base / "ikeorch" / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def try_lock(path: Path) -> IO[str] | None:
    """Lock a file, made when it is missing, without waiting.

    Args:
        path: The lock file.

    Returns:
        The open file, which holds the lock until it is closed; None when another process holds it.
    """
    lock = path.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def _prefix(kind: str) -> str:
    return f"ikeorch-{kind}-{os.getuid()}-"


def sweep(kind: str) -> list[Path]:
    """Remove the folders of one kind whose owners were killed.

    Args:
        kind: As given to claim_folder.

    Returns:
        What was removed.
    """
    removed = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_prefix(kind)}*")):
        if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
            continue
        # A folder without its lock file is just being made by another lab, or half removed; leave it for once.
        if not (folder / _LOCK).exists() or (lock := try_lock(folder / _LOCK)) is None:
            continue
        with lock:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def claim_folder(kind: str) -> tuple[Path, IO[str]]:
    """Make a temporary folder that is swept away when its owner is killed.

    Args:
        kind: What it is for; a word.

    Returns:
        The folder, and the open lock file that marks its owner as alive.

    Raises:
        OSError: It cannot be made.
    """
    sweep(kind)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(kind)))
    lock = try_lock(folder / _LOCK)
    if lock is None:
        raise FileExistsError(f"{folder} is locked by another process")
    return folder, lock
