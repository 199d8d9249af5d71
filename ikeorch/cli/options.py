"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ikeorch.cli.client import DEFAULT_SOCKET, Client
from ikeorch.core.risk_names import FLAG, RiskName

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_PROBE_SOCKET = "/run/ikeorch/probe.sock"
DEFAULT_CONFIG = "/etc/ikeorch/ikeorch.yaml"
ANY_PATH = click.Path(path_type=Path, readable=False)
"""Whoever opens it says better what is wrong with it."""
OUTPUTS = ("table", "json", "plain")


def socket_option(function: F) -> F:
    """``--socket``: passed on as `client`."""
    return click.option(
        "--socket",
        "client",
        envvar="IKEORCH_SOCKET",
        default=DEFAULT_SOCKET,
        show_default=True,
        metavar="PATH",
        help="The daemon's API socket.",
        callback=lambda _ctx, _param, value: Client(Path(value)),
    )(function)


def output_option(function: F) -> F:
    """``--output``: table for people, plain for scripts (tabs, no head), json for programs."""
    return click.option(
        "--output",
        type=click.Choice(OUTPUTS),
        default="table",
        show_default=True,
        help="table for people, plain for scripts (tabs, no heading), json for programs.",
    )(function)


def risk_option(function: F) -> F:
    """``--accept-risk``, any number of times: passed on as `accept_risk`."""
    return click.option(
        FLAG,
        multiple=True,
        type=click.Choice([risk.value for risk in RiskName]),
        help="Do it though it costs this; a refusal and `ikeorch plan` name what to accept. May be repeated.",
    )(function)


def print_json(value: object) -> None:
    """JSON for programs."""
    click.echo(json.dumps(value, indent=2))


def print_rows(heading: Sequence[str], rows: Sequence[Sequence[object]], output: str) -> None:
    """Rows as a table with aligned columns, or plain with tabs and no heading."""
    texts = [[str(cell) for cell in row] for row in rows]
    if output == "plain":
        for row in texts:
            click.echo("\t".join(row))
        return
    widths = [max(len(cell) for cell in column) for column in zip(heading, *texts, strict=True)]
    for row in [list(heading), *texts]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
