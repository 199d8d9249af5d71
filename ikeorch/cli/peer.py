"""``ikeorch peer``: add, remove, list and show peers."""

from __future__ import annotations

from typing import BinaryIO
from urllib.parse import quote

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import output_option, print_json, print_rows, risk_option, socket_option
from ikeorch.cli.waiting import DURATION, wait_until_carrying
from ikeorch.cli.why import echo_why
from ikeorch.errors import ConfigError, ExitCode

HEADING = ("PEER", "SITE", "IDENTITY", "TUNNELS", "INITIATOR", "PREFIXES")


@click.group()
def peer() -> None:
    """Add, remove, list and show peers."""


@peer.command()
@click.option("-f", "--file", "block", type=click.File("rb"), required=True, help="The peer block; - reads stdin.")
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait for packets.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the tunnels carry packets.")
@output_option
@socket_option
def add(client: Client, block: BinaryIO, timeout: float, output: str, *, no_wait: bool) -> int:
    """Add a peer from the block that its gateway printed, and wait for its tunnels.

    \b
    Two gateways that do not know each other yet:
      there  ikeorch config show --as-peer --inner NETWORK   prints its block
      here   ikeorch peer add -f -                           takes it
      here   ikeorch tunnel add PEER --count N               prints the block back
      there  ikeorch peer add -f -                           takes that one

    Exits 75 when its tunnels do not carry packets within the time-out.
    """  # noqa: D301 - \b is click's mark for a paragraph that is not wrapped
    answer = client.request("POST", "/v1/peers", {"block": _decode(block.read(1024 * 1024))})
    word = "added" if answer["changed"] else "unchanged"
    click.echo(f"{word}: peer {answer['peer']} with {len(answer['tunnels'])} tunnels", err=True)
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if not answer["tunnels"]:
        click.echo(f"next: ikeorch tunnel add {answer['peer']} --count N, and its block to that gateway", err=True)
    elif not no_wait:
        wait_until_carrying(client, answer["tunnels"], timeout)
    if output == "json":
        print_json(answer)
    return ExitCode.OK


@peer.command()
@click.argument("name")
@risk_option
@output_option
@socket_option
def remove(client: Client, name: str, accept_risk: tuple[str, ...], output: str) -> int:
    """Remove a peer with all its tunnels."""
    answer = client.request("DELETE", f"/v1/peers/{quote(name, safe='')}", {"accept_risks": accept_risk})
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"removed: peer {name}")
    return ExitCode.OK


@peer.command("list")
@output_option
@socket_option
def list_peers(client: Client, output: str) -> int:
    """List all peers."""
    view = client.get("/v1/status")
    if output == "json":
        print_json({"format_version": view["format_version"], "peers": view["peers"]})
    else:
        print_rows(HEADING, [_row(each) for each in view["peers"]], output)
    return ExitCode.OK


@peer.command()
@click.argument("name")
@output_option
@socket_option
def show(client: Client, name: str, output: str) -> int:
    """Show one peer, the state of its tunnels, and why they are in it."""
    view = client.get(f"/v1/peers/{quote(name, safe='')}")
    if output == "json":
        print_json(view)
        return ExitCode.OK
    print_rows(HEADING, [_row(view["peer"])], output)
    for each in view["tunnels"]:
        click.echo(f"{each['tunnel']} is {each['state']}: {each['reason']}")
    if output == "table":
        echo_why(view["why"])
    return ExitCode.OK


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        hint = "give it the block that `ikeorch tunnel add` printed"
        raise ConfigError(f"the peer block is not UTF-8 text at byte {error.start}", hint=hint) from None


def _row(each: Json) -> tuple[str, ...]:
    prefixes = ",".join(each["prefixes"]) or "-"
    return each["name"], each["site"], each["identity"], str(each["tunnels"]), each["initiator"], prefixes
