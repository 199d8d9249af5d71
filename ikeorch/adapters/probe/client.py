"""The prober as ikeorchd sees it: what it was told last, and a word when something changed.

Without a connection nothing is known of any tunnel, which moves none of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from ikeorch.adapters.probe.protocol import MAX_LINE, ProtocolError, decode_states, encode_targets
from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.core.health import ProbeState
from ikeorch.core.ids import TunnelId

RETRY = 0.2
"""Seconds between two attempts to connect."""
SILENCE = 5.0
"""Seconds; a prober says something twice a second, so one that is silent for so long does not run."""

_log = structlog.get_logger("ikeorch.probe")


class ProbeClient:
    """A connection to the prober, made again for ever.

    Args:
        path: the prober's socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._on_change: Callable[[], None] = _ignore
        self._targets: dict[TunnelId, ProbeTarget] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._states: dict[TunnelId, ProbeState] = {}
        self.problem = "it has not answered yet"
        """Why there is no connection, "" when there is one."""

    def states(self) -> Mapping[TunnelId, ProbeState]:
        """What the prober says of each tunnel; empty without a connection."""
        return self._states

    def set_targets(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        """Have exactly these probed."""
        changed = targets != self._targets or _wishes(targets) != _wishes(self._targets or {})
        self._targets = dict(targets)  # also what does not make another target: whoever connects next hears it
        if changed:
            self._send_targets()

    async def run(self, on_change: Callable[[], None]) -> None:
        """Keep the connection, for ever.

        Args:
            on_change: called when a verdict, or who answers, changed, or when the prober came or went.
        """
        self._on_change = on_change
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                self._send_targets()
                await self._listen(reader)
            except (OSError, ProtocolError, ValueError) as error:
                self._lost(_reason(error))
            finally:
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
            await asyncio.sleep(RETRY)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            async with asyncio.timeout(SILENCE):
                line = await reader.readline()
            if not line:
                raise ConnectionResetError("it ended")
            self._take(line)

    def _take(self, line: bytes) -> None:
        states, whole = decode_states(line)
        before, connected = self._states, not self.problem
        self._states = states if whole else {**before, **states}
        self.problem = ""
        if not connected or _judgements(before) != _judgements(self._states):
            self._on_change()

    def _lost(self, reason: str) -> None:
        if not self.problem:
            _log.warning("prober_lost", reason=reason)
        news = not self.problem
        self.problem = reason
        self._states = {}
        if news:
            self._on_change()

    def _send_targets(self) -> None:
        if self._writer is not None and self._targets is not None:
            self._writer.write(encode_targets(self._targets))


def _wishes(targets: Mapping[TunnelId, ProbeTarget]) -> dict[TunnelId, tuple[object, ...]]:
    """What may change without a target being another one."""
    return {
        tunnel: (target.spare, target.mtu, target.us, target.peer, target.known, target.also)
        for tunnel, target in targets.items()
    }


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it has said nothing for {SILENCE:.0f} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error)


def _ignore() -> None:
    """Nobody listens yet."""


def _judgements(states: Mapping[TunnelId, ProbeState]) -> dict[TunnelId, tuple[object, ...]]:
    """What the loop acts on; round-trip times and counters are for people."""
    return {
        tunnel: (
            state.verdict,
            state.mispaired,
            state.reflector_silent,
            state.spare,
            state.mtu,
            state.fits,
            state.calls_itself,
        )
        for tunnel, state in states.items()
    }
