"""The end of every ``show``: why it is in its state, reason by reason, with what to do next."""

from __future__ import annotations

import click

from ikeorch.cli.client import Json


def echo_why(why: Json) -> None:
    """The chain for people, the nearest reason first."""
    click.echo(f"why: {why['summary']}")
    for reason in why["because"]:
        head = f"{reason['severity']}: {reason['about']}: {reason['code']}"
        click.echo(f"  {head}: {reason['message']} (since {reason['since']})")
        click.echo(f"    next: {reason['hint']}")
