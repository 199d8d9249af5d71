"""``ikeorch apply``, ``confirm``, ``rollback`` and ``history``: changes, and the way back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import ANY_PATH, output_option, print_json, print_rows, socket_option
from ikeorch.cli.waiting import DURATION, REPEAT_PROGRESS
from ikeorch.errors import ExitCode, PendingError, UsageError


@click.command()
@click.argument("plan_file", required=False, type=ANY_PATH)
@click.option(
    "--confirm-within",
    type=DURATION,
    metavar="TIME",
    help="Go back by itself unless `ikeorch confirm` comes within this time, such as 10m.",
)
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait until it is done.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@output_option
@socket_option
def apply(
    client: Client, plan_file: Path | None, confirm_within: float | None, timeout: float, output: str, *, no_wait: bool
) -> int:
    """Put the configuration file in force, and wait until everything is as it says.

    With PLAN_FILE (of `ikeorch plan --out`) only if file and world are still those of that plan. Exits 75 when it is
    not done within the time-out: the daemon goes on with it.
    """
    body: Json = {"confirm_within": confirm_within}
    if plan_file is not None:
        body |= _read_plan(plan_file)
    answer = client.request("POST", "/v1/apply", body)
    click.echo("changed" if answer["changed"] else "unchanged", err=True)
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if answer["confirm_within"] is not None:
        left = f"{answer['confirm_within']:.0f} s"
        click.echo(f"it goes again in {left} unless you confirm it: ikeorch confirm", err=True)
    if not no_wait:
        _wait(client, answer, timeout)
    if output == "json":
        print_json(answer)
    return ExitCode.OK


def _read_plan(path: Path) -> Json:
    """The digests of a saved plan."""
    try:
        view = json.loads(path.read_bytes())
        return {"config": str(view["config_digest"]), "actions": str(view["actions_digest"])}
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError("is no plan", where=str(path), hint="make one with `ikeorch plan --out FILE`") from None


def _wait(client: Client, answer: Json, timeout: float) -> None:
    """Until a later pass finds nothing to do and the tunnels that carried before, and still exist, carry again."""
    began = time.monotonic()
    number, said = answer["pass"], 0.0
    while True:
        left = timeout - (time.monotonic() - began)
        view = client.get(f"/v1/status?after={number}&wait={max(0.0, min(left, REPEAT_PROGRESS)):.3f}")
        states = {tunnel["tunnel"]: tunnel["state"] for tunnel in view["tunnels"]}
        missing = [name for name in answer["carried"] if states.get(name, "carrying") != "carrying"]
        if view["pass"] > number and view["settled"] and not missing:
            click.echo(f"done after {time.monotonic() - began:.1f} s", err=True)
            return
        if time.monotonic() - said >= REPEAT_PROGRESS:
            said = time.monotonic()
            waits = "the daemon is at work"
            if missing:
                waits = f"{len(missing)} tunnels do not carry yet"
            elif view["renewing"]:
                waits = f"{len(view['renewing'])} tunnels still have their old IKE_SA"
            click.echo(f"{waits} ({said - began:.0f} s)", err=True)
        if left <= 0:
            wrong = "; ".join(condition["message"] for condition in view["conditions"][:4]) or "it is still at work"
            hint = "the daemon goes on: ikeorch status; or go back: ikeorch rollback"
            raise PendingError(f"not done after {timeout:.0f} s ({wrong})", hint=hint)
        number = max(number, view["pass"] if not view["settled"] else number)


@click.command()
@output_option
@socket_option
def confirm(client: Client, output: str) -> int:
    """Keep the change that waits for it."""
    answer = client.request("POST", "/v1/confirm")
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"confirmed: revision {answer['revision']} stays")
    return ExitCode.OK


@click.command()
@click.argument("revision", required=False, type=click.IntRange(1))
@output_option
@socket_option
def rollback(client: Client, revision: int | None, output: str) -> int:
    """Put REVISION in force again, or the one before; the file on disk becomes it too."""
    answer = client.request("POST", "/v1/rollback", {"revision": revision})
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"rolled back: revision {answer['revision']} is in force again")
    return ExitCode.OK


@click.command()
@output_option
@socket_option
def history(client: Client, output: str) -> int:
    """Show every revision: when, who, by which command, and what became of it."""
    view = client.get("/v1/history")
    if output == "json":
        print_json(view)
        return ExitCode.OK
    rows = [
        (
            str(each["revision"]),
            each["at"],
            "ikeorchd" if each["uid"] is None else str(each["uid"]),
            each["command"],
            each["outcome"],
            each["reason"] or "-",
        )
        for each in view["revisions"]
    ]
    print_rows(("REVISION", "AT", "USER", "COMMAND", "OUTCOME", "REASON"), rows, output)
    if view["confirm_within"] is not None and output == "table":
        click.echo(f"the newest goes again in {view['confirm_within']:.0f} s unless you confirm it: ikeorch confirm")
    return ExitCode.OK
