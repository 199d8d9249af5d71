"""charon's log as a source of refusals, on a connection of its own, so that no flood of lines delays an event.

charon sends every line of level 1 and nothing filters it there. Most are passed over by their bytes; when even that
would cost too much, as in a flood by somebody hostile, the connection is closed for a while, which also makes charon
drop what it has queued for us. Whoever is refused is refused again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from ikeorch.adapters.vici.refusals import RefusalReader, may_tell
from ikeorch.adapters.vici.transport import DEADLINE, Transport
from ikeorch.core.refusal import Refusal
from ikeorch.errors import IkeorchError

LINES_PER_SECOND = 4000
"""More are not read: about a tenth of a core. A thousand tunnels that come up in 20 s write about 3,000."""
FLOOD_PAUSE = 10.0
RECONNECT = 2.0


class _Budget:
    """How many lines this second still has.

    Args:
        lines: a second's.
        clock: monotonic seconds.
    """

    def __init__(self, lines: int, clock: Callable[[], float]) -> None:
        self._lines = lines
        self._clock = clock
        self._left, self._ends = lines, 0.0
        self.exhausted = False

    def spend(self) -> None:
        """Take one line from it."""
        self._left -= 1
        if self._left >= 0:
            return
        now = self._clock()
        self.exhausted = now < self._ends
        self._left, self._ends = self._lines, now + 1.0


class LogWatch:
    """Watches one charon's log.

    Args:
        path: its VICI socket.
        deadline: seconds for the registration.
        lines_per_second: above this the connection is closed for a while.
        pause: seconds, after a flood.
    """

    def __init__(
        self,
        path: Path,
        *,
        deadline: float = DEADLINE,
        lines_per_second: int = LINES_PER_SECOND,
        pause: float = FLOOD_PAUSE,
    ) -> None:
        self._transport = Transport(path, deadline=deadline)
        self._lines = lines_per_second
        self._pause = pause
        self.floods = 0

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    async def refusals(self, report: Callable[[Refusal], None]) -> None:
        """Report every refusal, for ever; a lost connection is opened again."""
        while True:
            pause = RECONNECT
            try:
                if await self._watch(report):
                    self.floods += 1
                    pause = self._pause
            except IkeorchError:
                pass
            await asyncio.sleep(pause)

    async def _watch(self, report: Callable[[Refusal], None]) -> bool:
        """Read until the connection ends, with an error, or a flood begins: then True."""
        budget, reader = _Budget(self._lines, time.monotonic), RefusalReader()

        def wanted(packet: bytes) -> bool:
            budget.spend()
            return budget.exhausted or may_tell(packet)

        events = self._transport.events(("log",), wanted)
        try:
            async for name, message in events:
                if budget.exhausted:
                    return True
                refusal = reader.read(message) if name == "log" else None
                if refusal is not None:
                    report(refusal)
        finally:
            await events.aclose()
        return False
