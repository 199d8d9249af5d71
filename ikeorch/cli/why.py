"""The end of every ``show``: why it is in its state, reason by reason, with what to do next."""

from __future__ import annotations

import click

from ikeorch.cli.client import Json


def echo_why(why: Json, *, err: bool = False) -> None:
    """The chain for people, the nearest reason first.

    Args:
        why: as the daemon tells it.
        err: on stderr, where stdout is a document.
    """
    click.echo(f"why: {why['summary']}", err=err)
    for reason in why["because"]:
        head = f"{reason['severity']}: {reason['about']}: {reason['code']}"
        click.echo(f"  {head}: {reason['message']} (since {reason['since']})", err=err)
        click.echo(f"    next: {reason['hint']}", err=err)
