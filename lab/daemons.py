"""The daemons of a lab's nodes, as their systemd units run them on a real gateway."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bgp.process import environment, server_command

RESTART_SECONDS = 1.0
"""Seconds from a daemon's end to its restart (RestartSec= of the units)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSpec:
    """How a daemon is run.

    Attributes:
        name: Its name in the lab.
        argv: Program and arguments.
        socket: A unix socket in the node that answers when the daemon is ready; "" for one that has none.
        env: Variables beside the node's own.
        restart_after: Seconds from its end to its restart, None for a daemon that stays dead.
        runtime_folder: A folder below /run that is made before it starts (RuntimeDirectory= of its unit).
        owner: The user and group that the runtime folder belongs to; the daemon becomes that user by itself.
    """

    name: str
    argv: tuple[str, ...]
    socket: str
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    restart_after: float | None = RESTART_SECONDS
    runtime_folder: str | None = None
    owner: str = "root"

    def start_request(self, *, restart: bool = True) -> dict[str, object]:
        """Return what a node's first process is asked, to run it.

        Args:
            restart: Whether it is restarted as its unit would.
        """
        return {
            "op": "daemon-start",
            "name": self.name,
            "argv": list(self.argv),
            "env": dict(self.env),
            "restart_after": self.restart_after if restart else None,
            "runtime_folder": self.runtime_folder,
            "owner": self.owner,
        }


_BIN = str(Path(sys.executable).parent)
FRR_FILE = "/etc/frr/frr.conf"
"""The configuration that every daemon of FRR reads: each takes what it knows and passes over the rest."""


def _frr(name: str) -> DaemonSpec:
    """A daemon of FRR. It reads its configuration itself, so a restart needs no vtysh; it opens no TCP port for one."""
    return DaemonSpec(
        name=name,
        argv=(f"/usr/lib/frr/{name}", "-f", FRR_FILE, "-P", "0"),
        socket=f"/run/frr/{name}.vty",
        runtime_folder="/run/frr",
        owner="frr",
    )


DAEMONS: Mapping[str, DaemonSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            DaemonSpec(
                name="charon",
                argv=("charon-systemd",),
                socket="/run/charon.vici",
                env=MappingProxyType({"STRONGSWAN_CONF": "/etc/strongswan.conf"}),
            ),
            DaemonSpec(
                name="prober",
                argv=(f"{_BIN}/ikeorch", "probe"),
                socket="/run/ikeorch/probe.sock",
            ),
            DaemonSpec(
                name="ikeorchd",
                argv=(f"{_BIN}/ikeorch", "daemon", "--config", "/etc/ikeorch/ikeorch.yaml"),
                socket="/run/ikeorch/api.sock",
            ),
            DaemonSpec(
                name="exabgp",
                argv=server_command(Path("/run/ikeorch/exabgp.conf"), exabgp=f"{_BIN}/exabgp"),
                socket="",
                # as root: another user may not be able to read a checkout in somebody's home
                env=MappingProxyType(environment(user="root")),
            ),
            _frr("zebra"),
            _frr("bgpd"),
            _frr("bfdd"),
        )
    }
)

GUARD_FILE = "/etc/ikeorch/guard.nft"
"""Rules that a gateway loads at boot before its links are up, where the file is there."""
LOAD_GUARD = ("nft", "-f", GUARD_FILE)

PRIVATE_FOLDERS = ("/etc/frr",)
"""Folders of which a node sees nothing of the host's: not every user may read them, and every lab shall be alike."""
