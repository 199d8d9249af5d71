"""Polling for conditions: a lab never sleeps for a time that somebody guessed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.control import LabError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, timeout: float = 10.0, interval: float = 0.02) -> T:
    """Call a condition until it holds.

    Args:
        condition: What is polled; anything true ends the wait.
        what: What is waited for, for the error.
        timeout: Seconds.
        interval: Seconds between two calls.

    Returns:
        The condition's first true value.

    Raises:
        LabError: It does not hold within the time.
    """
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() >= deadline:
            raise LabError(f"{what}: not within {timeout:g} s")
        time.sleep(interval)
