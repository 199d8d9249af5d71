"""``ikeorch status``: every tunnel, and everything that is wrong."""

from __future__ import annotations

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import output_option, print_json, print_rows, socket_option
from ikeorch.errors import ExitCode

WATCH = 2.0
"""Seconds between two looks where nothing was done meanwhile."""
HEADING = ("TUNNEL", "STATE", "PATH", "SUITE", "RTT", "WEIGHT", "IN", "OUT")


@click.command()
@output_option
@socket_option
@click.option("--check", is_flag=True, help="Exit 3 unless every tunnel carries and nothing is wrong.")
@click.option("--watch", is_flag=True, help="Show it again whenever something was done, until interrupted.")
def status(client: Client, output: str, *, check: bool, watch: bool) -> int:
    """Show tunnels and everything that is wrong.

    Exits 5 when charon does not answer.
    """
    view = client.get("/v1/status")
    _print(view, output)
    while watch:
        view = client.get(f"/v1/status?after={view['pass']}&wait={WATCH:.0f}")
        if output == "table":
            click.clear()  # nothing where no terminal is
        _print(view, output)
    if not view["charon"]["reachable"]:
        return ExitCode.CHARON_UNREACHABLE
    sound = all(tunnel["state"] == "carrying" for tunnel in view["tunnels"]) and not view["conditions"]
    return ExitCode.DEGRADED if check and not sound else ExitCode.OK


def _print(view: Json, output: str) -> None:
    if output == "json":
        print_json(view)
    else:
        show(view, output)


def show(view: Json, output: str) -> None:
    """The view for people or scripts."""
    if output == "table":
        gateway, charon = view["gateway"], view["charon"]
        version = f"charon {charon['version']}" if charon["reachable"] else "charon does not answer"
        click.echo(f"gateway {gateway['name']} (site {gateway['site']}), ikeorch {gateway['version']}, {version}")
    if view["tunnels"]:
        print_rows(HEADING, [tunnel_row(tunnel) for tunnel in view["tunnels"]], output)
    elif output == "table":
        peers = ", ".join(each["name"] for each in view["peers"])
        if peers:
            click.echo(f"no tunnels are configured; add some: ikeorch tunnel add PEER --count N (peers: {peers})")
        else:
            click.echo("no peer is configured; ikeorch peer add --help says how one comes")
    if output == "table":
        for neighbor in view["fabric"]["neighbors"]:
            told = ", ".join(f"{route['prefix']} {route['capacity']}" for route in neighbor["routes"]) or "nothing"
            click.echo(f"fabric {neighbor['address']} AS{neighbor['asn']} {neighbor['state']}: told {told}")
        for condition in view["conditions"]:
            subject = f" {condition['subject']}" if condition["subject"] else ""
            head = f"{condition['severity']}: {condition['code']}{subject}"
            click.echo(f"{head}: {condition['message']} (since {condition['since']})")
            click.echo(f"  next: {condition['hint']}")


def tunnel_row(tunnel: Json) -> tuple[str, ...]:
    """One tunnel's columns."""
    path = tunnel["path"]
    suite = tunnel["child"]["suite"] or tunnel["suite"] if tunnel["child"] else "-"
    rtt = "-" if tunnel["rtt_ms"] is None else f"{tunnel['rtt_ms']:.2f}ms"
    return (
        tunnel["tunnel"],
        tunnel["state"],
        f"{path['uplink']} {path['local']}>{path['remote']}",
        suite,
        rtt,
        str(tunnel["weight"]),
        format_bytes(tunnel["bytes_in"]) if tunnel["child"] else "-",
        format_bytes(tunnel["bytes_out"]) if tunnel["child"] else "-",
    )


def format_bytes(count: int) -> str:
    """A number of bytes in three or four digits and a decimal unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000:
            return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:.1f}PB"
