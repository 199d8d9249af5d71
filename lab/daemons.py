"""The daemons of a lab's nodes, as their systemd units run them on a real gateway."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

RESTART_SECONDS = 1.0
"""Seconds from a daemon's end to its restart (RestartSec= of the units)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSpec:
    """How a daemon is run.

    Attributes:
        name: Its name in the lab.
        argv: Program and arguments.
        socket: A unix socket in the node that answers when the daemon is ready.
        env: Variables beside the node's own.
        restart_after: Seconds from its end to its restart, None for a daemon that stays dead.
    """

    name: str
    argv: tuple[str, ...]
    socket: str
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    restart_after: float | None = RESTART_SECONDS


_BIN = str(Path(sys.executable).parent)

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
        )
    }
)

GUARD_FILE = "/etc/ikeorch/guard.nft"
"""Rules that a gateway loads at boot before its links are up, where the file is there."""
