"""``ikeorch bgp``: the sessions with the fabric, and what it was told."""

from __future__ import annotations

import click

from ikeorch.cli.client import Client
from ikeorch.cli.options import output_option, print_json, print_rows, socket_option
from ikeorch.errors import ExitCode


@click.group()
def bgp() -> None:
    """Show the sessions with the fabric and what it was told."""


@bgp.command()
@output_option
@socket_option
def status(client: Client, output: str) -> int:
    """Show each session; exits 3 when one is down or ExaBGP is not there."""
    view = client.get("/v1/status")
    fabric = view["fabric"]
    if output == "json":
        print_json({"format_version": view["format_version"], "fabric": fabric})
    else:
        rows = [
            (each["address"], str(each["asn"]), each["state"], str(len(each["routes"])), each["reason"] or "-")
            for each in fabric["neighbors"]
        ]
        if rows:
            print_rows(("NEIGHBOR", "AS", "STATE", "ROUTES", "REASON"), rows, output)
        elif output == "table":
            click.echo("no neighbours are configured; name the leafs under fabric.neighbors")
        if output == "table" and fabric["neighbors"] and not fabric["connected"]:
            click.echo("ExaBGP is not connected: systemctl start ikeorch-exabgp")
    sound = fabric["connected"] and all(each["state"] == "up" for each in fabric["neighbors"])
    return ExitCode.OK if sound or not fabric["neighbors"] else ExitCode.DEGRADED


@bgp.command()
@output_option
@socket_option
def routes(client: Client, output: str) -> int:
    """Show what each neighbour was told: prefix, link bandwidth on the wire, and the capacity that it stands for."""
    view = client.get("/v1/status")
    rows = [
        {"neighbor": neighbor["address"], **route}
        for neighbor in view["fabric"]["neighbors"]
        for route in neighbor["routes"]
    ]
    if output == "json":
        print_json({"format_version": view["format_version"], "routes": rows})
    else:
        print_rows(
            ("NEIGHBOR", "PREFIX", "BYTES/S", "CAPACITY"),
            [(row["neighbor"], row["prefix"], f"{row['bandwidth']:.0f}", row["capacity"]) for row in rows],
            output,
        )
    return ExitCode.OK
