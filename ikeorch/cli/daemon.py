"""``ikeorch daemon``: ikeorchd itself."""

from __future__ import annotations

from pathlib import Path

import click

from ikeorch.cli.client import DEFAULT_SOCKET
from ikeorch.cli.options import ANY_PATH, DEFAULT_CONFIG, DEFAULT_PROBE_SOCKET
from ikeorch.errors import ExitCode


@click.command()
@click.option(
    "--config",
    "config_file",
    type=ANY_PATH,
    default=DEFAULT_CONFIG,
    show_default=True,
)
@click.option("--state", type=ANY_PATH, default="/var/lib/ikeorch", show_default=True)
@click.option("--socket", "api_socket", type=ANY_PATH, default=DEFAULT_SOCKET, show_default=True)
@click.option("--probe-socket", type=ANY_PATH, default=DEFAULT_PROBE_SOCKET, show_default=True)
@click.option("--log-json", is_flag=True, help="One JSON object a line.")
@click.option("--debug", is_flag=True, help="Also log passes that changed nothing.")
def daemon(config_file: Path, state: Path, api_socket: Path, probe_socket: Path, *, log_json: bool, debug: bool) -> int:
    """Run ikeorchd in the foreground.

    Its end, wanted or not, tears no tunnel down. SIGHUP reads the configuration again.
    """
    from ikeorch.daemon.logs import configure_logs
    from ikeorch.daemon.main import Settings, run_daemon

    configure_logs(json=log_json, debug=debug)
    run_daemon(Settings(config=config_file, state=state, socket=api_socket, probe_socket=probe_socket))
    return ExitCode.OK
