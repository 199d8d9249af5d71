"""``ikeorch tunnel``: add, remove, list and show tunnels."""

from __future__ import annotations

import sys
from urllib.parse import quote

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import output_option, print_json, print_rows, risk_option, socket_option
from ikeorch.cli.status import HEADING, tunnel_row
from ikeorch.cli.waiting import DURATION, wait_until_carrying
from ikeorch.cli.why import echo_why
from ikeorch.errors import ExitCode, UsageError

TIMEOUT = 60.0


@click.group()
def tunnel() -> None:
    """Add, remove, list and show tunnels."""


@tunnel.command()
@click.argument("peer")
@click.option("--count", type=click.IntRange(1, 256), required=True, help="How many tunnels the bundle shall have.")
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait for packets.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the tunnels carry packets.")
@output_option
@socket_option
def add(client: Client, peer: str, count: int, timeout: float, output: str, *, no_wait: bool) -> int:
    """Give the bundle to PEER at least COUNT tunnels and wait until packets prove them.

    Prints the block for the other gateway on stdout at once (there: ikeorch peer add -f -), progress on stderr.
    Exits 75 when the peer is not ready within the time-out; the tunnels come up by themselves once it is.
    """
    answer = client.request("PUT", f"/v1/peers/{quote(peer, safe='')}/tunnels", {"at_least": count})
    click.echo("changed" if answer["changed"] else "unchanged", err=True)
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if output != "json":
        click.echo(answer["peer_block"], nl=False)
        sys.stdout.flush()
    if not no_wait:
        wait_until_carrying(client, answer["tunnels"], timeout)
    if output == "json":
        print_json(answer)
    return ExitCode.OK


@tunnel.command()
@click.argument("peer")
@click.option("--count", type=click.IntRange(1, 256), help="How many tunnels to take away, the highest numbers first.")
@click.option("--all", "everything", is_flag=True, help="Take all of them away.")
@risk_option
@output_option
@socket_option
def remove(
    client: Client, peer: str, count: int | None, accept_risk: tuple[str, ...], output: str, *, everything: bool
) -> int:
    """Take tunnels to PEER away; the peer itself stays configured."""
    if everything == (count is not None):
        raise UsageError("say either --count N or --all")
    present = len(_tunnels_of(client.get("/v1/status"), peer))
    left = 0 if everything else max(0, present - (count or 0))
    body: Json = {"count": left, "accept_risks": accept_risk}
    answer = client.request("PUT", f"/v1/peers/{quote(peer, safe='')}/tunnels", body)
    if output == "json":
        print_json(answer)
    else:
        word = "changed" if answer["changed"] else "unchanged"
        click.echo(f"{word}: the bundle to {peer} has {left} tunnel{'s' if left != 1 else ''}")
    return ExitCode.OK


@tunnel.command()
@click.argument("peer", required=False)
@click.option(
    "--for", "wanted", type=click.Choice(["carrying"]), default="carrying", show_default=True, help="What to wait for."
)
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait.")
@socket_option
def wait(client: Client, peer: str | None, wanted: str, timeout: float) -> int:
    """Wait until all tunnels, or those to PEER, carry packets; exits 75 when they do not within the time-out."""
    view = client.get("/v1/status")
    tunnels = view["tunnels"] if peer is None else _tunnels_of(view, peer)
    wait_until_carrying(client, [each["tunnel"] for each in tunnels], timeout)
    return ExitCode.OK


@tunnel.command("list")
@click.argument("peer", required=False)
@output_option
@socket_option
def list_tunnels(client: Client, peer: str | None, output: str) -> int:
    """List all tunnels, or those to PEER."""
    view = client.get("/v1/status")
    tunnels = view["tunnels"] if peer is None else _tunnels_of(view, peer)
    if output == "json":
        print_json({"format_version": view["format_version"], "tunnels": tunnels})
    else:
        print_rows(HEADING, [tunnel_row(each) for each in tunnels], output)
    return ExitCode.OK


@tunnel.command()
@click.argument("name")
@output_option
@socket_option
def show(client: Client, name: str, output: str) -> int:
    """Show everything about one tunnel, such as gw-b/0, and why it is in its state."""
    peer, slash, index = name.partition("/")
    if not (peer and slash and index):
        raise UsageError(f"there is no tunnel {name!r}", hint="a name is PEER/INDEX; see `ikeorch tunnel list`")
    view = client.get(f"/v1/tunnels/{quote(peer, safe='')}/{quote(index, safe='')}")
    if output == "json":
        print_json(view)
        return ExitCode.OK
    print_rows(("WHAT", "VALUE"), list(_flatten(view["tunnel"])), output)
    if output == "table":
        echo_why(view["why"])
    return ExitCode.OK


def _tunnels_of(view: Json, peer: str) -> list[Json]:
    if not any(each["name"] == peer for each in view["peers"]):
        known = ", ".join(each["name"] for each in view["peers"]) or "none"
        raise UsageError(f"there is no peer {peer!r}", hint=f"configured peers: {known}")
    return [each for each in view["tunnels"] if each["peer"] == peer]


def _flatten(value: Json, prefix: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, entry in value.items():
        if isinstance(entry, dict):
            rows.extend(_flatten(entry, f"{prefix}{key}."))
        elif isinstance(entry, list):
            for position, item in enumerate(entry):
                rows.extend(_flatten(item, f"{prefix}{key}[{position}]."))
        else:
            rows.append((f"{prefix}{key}", "-" if entry is None else entry))
    return rows
