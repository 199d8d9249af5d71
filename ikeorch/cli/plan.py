"""``ikeorch plan``: what the daemon would change now."""

from __future__ import annotations

import click

from ikeorch.cli.client import Client
from ikeorch.cli.options import output_option, print_json, print_rows, socket_option
from ikeorch.errors import ExitCode


@click.command()
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when something would change.")
@output_option
@socket_option
def plan(client: Client, output: str, *, detailed_exitcode: bool) -> int:
    """Show what the daemon would change now, and why.

    In a settled gateway that is nothing. Each line begins with + (add), ~ (change), - (remove) or ! (risk).
    Exits 5 when charon does not answer, 1 when something else could not be seen: the plan is not all of it then.
    """
    view = client.get("/v1/plan")
    actions, unseen = view["actions"], view["unseen"]
    if output == "json":
        print_json(view)
    elif actions:
        rows = [(each["symbol"], each["action"], each["reason"], each["impact"]) for each in actions]
        print_rows(("", "ACTION", "REASON", "IMPACT"), rows, output)
    elif output == "table" and not unseen:
        click.echo("nothing to change: the gateway is as configured")
    for condition in unseen:
        click.echo(f"not seen: {condition['code']}: {condition['message']}; {condition['hint']}", err=True)
    if unseen:
        codes = {condition["code"] for condition in unseen}
        return ExitCode.CHARON_UNREACHABLE if "charon-unreachable" in codes else ExitCode.ERROR
    return ExitCode.CHANGES_PENDING if detailed_exitcode and actions else ExitCode.OK
