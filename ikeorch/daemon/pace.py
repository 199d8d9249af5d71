"""When the loop runs its next pass: woken, by a timer, or because nothing was looked at for long."""

from __future__ import annotations

import asyncio
import time

from ikeorch.core.units import Seconds

RESYNC = Seconds(30.0)
COALESCE = Seconds(0.02)
"""Events come in bursts; this long is waited for the rest of one."""
MAX_SPACING = Seconds(1.0)
DUTY = 5
"""A pass is followed by a pause of this many times its own length, at most `MAX_SPACING`."""
REPAIR_SETTLE = Seconds(0.15)
"""Tunnels that fail together are judged within a probe interval and a half; a pass in between would delay the later
ones' repair. A pass is held at most `MAX_SPACING`."""


class Pace:
    """Collects the reasons for the next pass and says when it is its turn."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._reasons: list[str] = []
        self._repaired = float("-inf")

    def wake(self, reason: str) -> None:
        """Ask for a pass soon."""
        if reason not in self._reasons:
            self._reasons.append(reason)
        self._woken.set()

    def repaired(self) -> None:
        """Groups were changed beside the passes just now."""
        self._repaired = time.monotonic()

    async def turn(self, timer: Seconds | None) -> tuple[str, ...]:
        """Wait for a wake, the timer or the resync; then for the rest of the burst, and until repairs are a moment ago.

        Args:
            timer: monotonic seconds, None for no timer.

        Returns:
            Why it is time.
        """
        timer_due = await self._wait(timer)
        await self._let_repairs_settle()
        reasons, self._reasons = tuple(self._reasons), []
        self._woken.clear()
        return reasons or (("timer",) if timer_due else ("resync",))

    async def rest(self, took: float) -> None:
        """The pause after a pass of so many seconds."""
        await asyncio.sleep(min(max(took * DUTY, COALESCE), MAX_SPACING))

    async def _wait(self, timer: Seconds | None) -> bool:
        """True if it was the timer."""
        until_timer = RESYNC if timer is None else max(0.0, timer - time.monotonic())
        try:
            async with asyncio.timeout(min(RESYNC, until_timer)):
                await self._woken.wait()
        except TimeoutError:
            return until_timer < RESYNC
        await asyncio.sleep(COALESCE)
        return False

    async def _let_repairs_settle(self) -> None:
        ends = time.monotonic() + MAX_SPACING
        while True:
            pause = min(self._repaired + REPAIR_SETTLE, ends) - time.monotonic()
            if pause <= 0:
                return
            await asyncio.sleep(pause)
