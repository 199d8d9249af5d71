"""``ikeorch probe``: the prober itself."""

from __future__ import annotations

from pathlib import Path

import click

from ikeorch.cli.options import ANY_PATH, DEFAULT_PROBE_SOCKET
from ikeorch.errors import ExitCode


@click.command()
@click.option(
    "--socket",
    "probe_socket",
    type=ANY_PATH,
    default=DEFAULT_PROBE_SOCKET,
    show_default=True,
)
@click.option("--log-json", is_flag=True, help="One JSON object a line.")
def probe(probe_socket: Path, *, log_json: bool) -> int:
    """Run the prober in the foreground: it probes every tunnel and reflects the peers' probes.

    ikeorchd tells it by the socket which tunnels there are; it goes on without ikeorchd.
    """
    from ikeorch.daemon.logs import configure_logs
    from ikeorch.daemon.probe_main import run_prober

    configure_logs(json=log_json, debug=False)
    run_prober(probe_socket)
    return ExitCode.OK
