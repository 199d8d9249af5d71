"""The prober's socket: ikeorchd connects, says what to probe and is told what was seen.

A client that goes away changes nothing: the tunnels are probed and the peer's probes reflected as before, and the next
one is told everything first. There is one client; a new one replaces it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import structlog

from ikeorch.adapters.peer import peer_of
from ikeorch.adapters.probe.prober import Prober
from ikeorch.adapters.probe.protocol import MAX_LINE, ProtocolError, decode_targets, encode_states
from ikeorch.core.ids import TunnelId

REPORT_INTERVAL = 0.5
"""Seconds between two reports of all tunnels; changes of a verdict are told at once."""
MAX_UNREAD = 1024 * 1024
"""Bytes that a client may leave unread before it is dropped; it connects again when it is back."""

_log = structlog.get_logger("ikeorch.probe")


class ProbeServer:
    """The prober as a process.

    Args:
        path: the unix socket; the caller holds the lock that makes this the only prober.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._prober = Prober(self._changed)
        self._client: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Serve until cancelled."""
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._serve, self._path, limit=MAX_LINE)
        finally:
            os.umask(mask)
        try:
            while True:
                await asyncio.sleep(REPORT_INTERVAL)
                self._tell_all()
        finally:
            server.close()
            self._prober.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = peer_of(writer.transport)
        if peer is None or peer.uid not in {0, os.geteuid()}:
            writer.close()
            return
        if self._client is not None:
            self._client.close()
        self._client = writer
        self._tell_all()
        try:
            while line := await reader.readline():
                self._prober.set_targets(decode_targets(line))
                self._tell_all()
        except (OSError, ProtocolError, ValueError) as error:
            _log.warning("client_dropped", reason=str(error))
        finally:
            writer.close()
            if self._client is writer:
                self._client = None

    def _changed(self, tunnel: TunnelId) -> None:
        state = self._prober.states().get(tunnel)
        if state is None:
            return
        _log.info(
            "tunnel_judged", tunnel=str(tunnel), verdict=state.verdict.value, reflector_silent=state.reflector_silent
        )
        self._send(encode_states({tunnel: state}, whole=False))

    def _tell_all(self) -> None:
        self._send(encode_states(self._prober.states(), whole=True))

    def _send(self, line: bytes) -> None:
        client = self._client
        if client is None or client.is_closing():
            return
        if client.transport.get_write_buffer_size() > MAX_UNREAD:
            _log.warning("client_dropped", reason="it does not read")
            client.transport.abort()
            return
        client.write(line)
