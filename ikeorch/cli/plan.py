"""``ikeorch plan``: what the daemon would change now."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import ANY_PATH, output_option, print_json, print_rows, socket_option
from ikeorch.errors import ExitCode, UsageError


@click.command()
@click.option("--out", "plan_file", type=ANY_PATH, help="Save the plan for `ikeorch apply FILE`.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when something would change.")
@output_option
@socket_option
def plan(client: Client, plan_file: Path | None, output: str, *, detailed_exitcode: bool) -> int:
    """Show what `ikeorch apply` would change now, and why: the file as it is, against the world as it is.

    In a settled gateway that is nothing. Each line begins with + (add), ~ (change), - (remove) or ! (risk).
    Exits 5 when charon does not answer, 1 when something else could not be seen: the plan is not all of it then.
    """
    view = client.get("/v1/plan")
    actions, unseen = view["actions"], view["unseen"]
    if plan_file is not None:
        _save(plan_file, view)
    if output == "json":
        print_json(view)
    elif actions or view["risks"]:
        rows = [(each["symbol"], each["action"], each["reason"], each["impact"]) for each in actions]
        rows += [(each["symbol"], each["risk"], each["message"], f"needs {each['flag']}") for each in view["risks"]]
        print_rows(("", "ACTION", "REASON", "IMPACT"), rows, output)
    elif output == "table" and not unseen:
        click.echo("nothing to change: the gateway is as configured")
    for condition in unseen:
        click.echo(f"not seen: {condition['code']}: {condition['message']}; {condition['hint']}", err=True)
    if unseen:
        codes = {condition["code"] for condition in unseen}
        return ExitCode.CHARON_UNREACHABLE if "charon-unreachable" in codes else ExitCode.ERROR
    return ExitCode.CHANGES_PENDING if detailed_exitcode and actions else ExitCode.OK


def _save(path: Path, view: Json) -> None:
    try:
        path.write_text(json.dumps(view, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from None
