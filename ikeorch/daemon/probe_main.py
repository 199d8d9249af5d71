"""The composition root of the prober, a process of its own: ikeorchd may come and go without a probe being missed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import structlog

from ikeorch.adapters.probe.server import ProbeServer
from ikeorch.daemon.single import only_one

_log = structlog.get_logger("ikeorch.probe")


def run_prober(socket: Path) -> None:
    """Run the prober until SIGTERM or SIGINT.

    Raises:
        IkeorchError: another one runs, or there is no permission.
    """
    with only_one("ikeorch-probe", socket):
        asyncio.run(_run(socket))


async def _run(socket: Path) -> None:
    loop = asyncio.get_running_loop()
    server = asyncio.create_task(ProbeServer(socket).run(), name="probe-server")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.cancel)
    _log.info("prober_started", socket=str(socket))
    with contextlib.suppress(asyncio.CancelledError):
        await server
    _log.info("prober_stopped")
