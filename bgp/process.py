"""How ExaBGP is run: its arguments and its environment, for a systemd unit and for the lab's supervisor. No I/O.

The values that ExaBGP reads by name from the environment are strings; all of its other settings keep their defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from bgp.advertisement import IPAddress

BGP_PORT = 179

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        # Each command is answered: one answer, one command.
        "exabgp_api_ack": "true",
        # No named pipes for a command line of ExaBGP's own: they have hung it.
        "exabgp_api_cli": "false",
        "exabgp_api_encoder": "json",
        # A shim that died is started again, up to five times in 64 s by the wall clock; the sixth ends ExaBGP.
        "exabgp_api_respawn": "true",
        # The shim's end must not end the sessions.
        "exabgp_api_terminate": "false",
        # A route that is announced again unchanged sends no UPDATE, and a lost session is replayed from here.
        "exabgp_cache_attributes": "true",
        "exabgp_cache_nexthops": "true",
        "exabgp_daemon_daemonize": "false",
        "exabgp_log_destination": "stderr",
        "exabgp_log_level": "WARNING",
        # The shim writes nothing for the log, and the log must not show each route.
        "exabgp_log_processes": "false",
        "exabgp_tcp_once": "false",
    }
)
"""What always holds."""


def environment(*, user: str = "nobody", port: int = BGP_PORT, listen: Iterable[IPAddress] = ()) -> dict[str, str]:
    """ExaBGP's environment, to be added to PATH.

    Args:
        user: whom ExaBGP becomes when it is started by root. It must be able to enter the socket's folder.
        port: TCP port of the peers, and ours.
        listen: addresses of ours where peers may connect, too. Without, a peer that was gone for long is found again
            only with ExaBGP's next attempt, up to 60 s later. Ports below 1024 need root or CAP_NET_BIND_SERVICE, and
            each neighbour needs its `local_address`: ExaBGP answers nobody while there is one that has none.
    """
    settings = {**ENVIRONMENT, "exabgp_daemon_user": user, "exabgp_tcp_port": str(port)}
    if addresses := " ".join(str(address) for address in listen):
        settings["exabgp_tcp_bind"] = addresses
    return settings


def server_command(config_file: Path, *, exabgp: str = "exabgp") -> tuple[str, ...]:
    """The command line of the ExaBGP process."""
    return (exabgp, "server", str(config_file))


def validate_command(*, exabgp: str = "exabgp") -> tuple[str, ...]:
    """The command line that checks a configuration file, whose name is to be added."""
    return (exabgp, "validate")


def shim_command(socket: Path, *, python: str = sys.executable) -> tuple[str, ...]:
    """The command line of the shim, as it stands in ExaBGP's configuration.

    Args:
        socket: where ikeorchd listens.
        python: any Python 3.11 or newer, by absolute path; the shim needs the standard library only.
    """
    return (python, "-I", "-S", str(Path(__file__).with_name("shim.py")), str(socket))
