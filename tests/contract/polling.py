"""Wait for something to become true, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]], *, within: float = 30.0) -> T:
    """Return the first answer that is true.

    Args:
        look: asks the world.
        within: seconds.
    """
    end = time.monotonic() + within
    while not (answer := await look()):
        assert time.monotonic() < end, f"still {answer!r} after {within:g} s"
        await asyncio.sleep(0.02)
    return answer
