"""A real charon-systemd in a network namespace of its own, with the configuration that we ship and its own socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from importlib.resources import files
from pathlib import Path

CHARON = shutil.which("charon-systemd", path="/usr/sbin:/usr/lib/ipsec:/usr/local/sbin")
READY_SECONDS = 20.0

SHIPPED = files("templates") / "strongswan.conf"
REPLACED = ("unix:///run/charon.vici", "/var/log/charon.log")
"""What the shipped configuration says of the machine, and each test says differently."""


def why_not() -> str:
    """Why no real charon can run here; "" when it can."""
    if CHARON is None:
        return "charon-systemd is not installed (package charon-systemd)"
    if os.geteuid() != 0:
        return "charon needs root"
    return ""


class RealCharon:
    """One charon process; use it as an async context manager.

    Args:
        folder: for its socket, configuration and log.
        enter: command that puts it into its network namespace.
    """

    def __init__(self, folder: Path, *, enter: tuple[str, ...] = ("unshare", "--net")) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "charon.vici"
        self.log = folder / "charon.log"
        self._enter = enter
        self._configuration = folder / "strongswan.conf"
        text = SHIPPED.read_text(encoding="utf-8")
        for shipped, ours in zip(REPLACED, (f"unix://{self.path}", str(self.log)), strict=True):
            assert text.count(shipped) == 1, f"templates/strongswan.conf no longer says {shipped}"
            text = text.replace(shipped, ours)
        self._configuration.write_text(text, encoding="utf-8")
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> RealCharon:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it and wait until its socket answers."""
        assert CHARON is not None
        self._process = await asyncio.create_subprocess_exec(
            *self._enter,
            CHARON,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "STRONGSWAN_CONF": str(self._configuration)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(str(self.path))
            except OSError:
                if time.monotonic() > end or self._process.returncode is not None:
                    raise
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return

    def pause(self) -> None:
        """Stop it as a debugger would: its socket is there and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    async def stop(self) -> None:
        """Kill it; its socket's file stays."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None

    async def restart(self) -> None:
        """Another process on the same socket."""
        await self.stop()
        self.path.unlink(missing_ok=True)
        await self.start()
