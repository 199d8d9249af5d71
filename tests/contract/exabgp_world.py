"""The real ExaBGP on loopback, its peers being collectors of ours. Needs no privileges and no port below 1024."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bgp.advertisement import IPAddress
from bgp.process import environment, server_command, validate_command
from tests.contract.bgp_collector import Collector
from tests.contract.polling import eventually

EXABGP = str(Path(sys.executable).with_name("exabgp"))


@dataclass(slots=True, kw_only=True)
class RealExabgp:
    """An ExaBGP process and its peers.

    Attributes:
        folder: where the socket, the configuration and the log are.
        peers: the routers, by address.
        port: of the peers and of ExaBGP.
        listen: where ExaBGP takes connections.
    """

    folder: Path
    peers: dict[str, Collector] = field(default_factory=dict)
    port: int = 0
    listen: tuple[IPAddress, ...] = ()
    _process: asyncio.subprocess.Process | None = None

    @property
    def socket(self) -> Path:
        """Where the speaker listens."""
        return self.folder / "shim.sock"

    @property
    def config_file(self) -> Path:
        """What ExaBGP reads."""
        return self.folder / "exabgp.conf"

    @property
    def pid(self) -> int:
        """ExaBGP's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def validate(self) -> tuple[str, ...]:
        """ExaBGP's check."""
        return validate_command(exabgp=EXABGP)

    @property
    def log(self) -> str:
        """What ExaBGP has logged."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    async def add_peer(self, address: str, asn: int = 65001) -> Collector:
        """A router that listens."""
        peer = Collector(address=address, asn=asn, port=self.port)
        await peer.start()
        self.port = peer.port
        self.peers[address] = peer
        return peer

    async def start(self) -> None:
        """Start ExaBGP once its configuration is there."""

        async def written() -> bool:
            return self.config_file.exists()

        await eventually(written)
        settings = environment(user=getpass.getuser(), port=self.port, listen=self.listen)
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *server_command(self.config_file, exabgp=EXABGP),
                env={**os.environ, **settings, "exabgp_log_level": "INFO"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def running(self) -> bool:
        """Whether the process that was started last still runs."""
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        """SIGKILL, as a crash."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End ExaBGP and its peers."""
        await self._end(signal.SIGKILL)
        for peer in self.peers.values():
            await peer.stop()

    async def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            await self._process.wait()
            self._process = None

    async def restart(self) -> None:
        """What a supervisor does after a crash."""
        await self.kill()
        await self.start()
