"""Deadlines by the machine's own time, which no set clock moves."""

from __future__ import annotations

import time
from pathlib import Path

from ikeorch.core.revision import Deadline
from ikeorch.core.units import Seconds

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def deadline_in(seconds: Seconds) -> Deadline:
    """So many seconds from now."""
    return Deadline(at=Seconds(time.time() + seconds), boot=_boot_id(), boot_at=Seconds(_boot_time() + seconds))


def seconds_left(deadline: Deadline) -> Seconds:
    """Seconds until it, 0 or less when it is over."""
    return deadline.left(now=Seconds(time.time()), boot=_boot_id(), boot_now=Seconds(_boot_time()))


def _boot_id() -> str:
    """Identity of this start of the machine."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _boot_time() -> float:
    """Seconds since the machine started, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
