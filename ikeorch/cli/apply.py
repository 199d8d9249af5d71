"""``ikeorch apply``, ``confirm``, ``rollback`` and ``history``: changes, and the way back."""

from __future__ import annotations

import json
import os
import time
from ipaddress import ip_address
from pathlib import Path

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import ANY_PATH, output_option, print_json, print_rows, risk_option, socket_option
from ikeorch.cli.waiting import DURATION, RATIO, REPEAT_PROGRESS
from ikeorch.errors import ExitCode, IkeorchError, PendingError, UsageError

POLL = 0.5
"""Seconds between two looks at a change's trial."""


@click.command()
@click.argument("plan_file", required=False, type=ANY_PATH)
@click.option(
    "--confirm-within",
    type=DURATION,
    metavar="TIME",
    help="Go back by itself unless `ikeorch confirm` comes within this time, such as 10m.",
)
@click.option(
    "--wait-for-peer",
    type=DURATION,
    metavar="TIME",
    help="How long what the peer does not take, or does not answer, is tried before the change is undone.  [default: "
    "10m; at once for a tunnel that stops carrying packets of its full size]",
)
@click.option(
    "--max-lost",
    type=RATIO,
    default="50%",
    show_default=True,
    help="Undo the change when more of the tunnels that carried before stop carrying.",
)
@click.option("--timeout", type=DURATION, default="60s", show_default=True, help="How long to wait until it is done.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@risk_option
@output_option
@socket_option
def apply(
    client: Client,
    plan_file: Path | None,
    output: str,
    *,
    confirm_within: float | None,
    wait_for_peer: float | None,
    max_lost: float,
    timeout: float,
    accept_risk: tuple[str, ...],
    no_wait: bool,
) -> int:
    """Put the configuration file in force, and wait until packets have proven it.

    Half of a bundle is changed at a time. When packets do not come through what was changed, or the peer does not
    take it in time, or this SSH session's own way here is lost, file and gateway become what they were before and it
    exits 1; `ikeorch history` keeps the change.

    With PLAN_FILE (of `ikeorch plan --out`) only if file and world are still those of that plan. Exits 75 when it is
    not done within the time-out, or waits for the peer: the daemon goes on with it.
    """
    body: Json = {"confirm_within": confirm_within, "wait_for_peer": wait_for_peer, "max_lost": max_lost}
    body["accept_risks"] = accept_risk
    body["operator"] = _operator()
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


def _operator() -> str | None:
    """Where the operator sits, None at the console; sshd sets SSH_CONNECTION, sudo may have taken it away."""
    text = os.environ.get("SSH_CONNECTION", "").split(" ")[0].split("%")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _read_plan(path: Path) -> Json:
    """The digests of a saved plan."""
    try:
        view = json.loads(path.read_bytes())
        return {"config": str(view["config_digest"]), "actions": str(view["actions_digest"])}
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError("is no plan", where=str(path), hint="make one with `ikeorch plan --out FILE`") from None


def _wait(client: Client, answer: Json, timeout: float) -> None:
    """Until packets have proven it: the trial of its revision is over, and a later pass finds nothing to do."""
    began = time.monotonic()
    number, said = answer["pass"], 0.0
    while True:
        left = timeout - (time.monotonic() - began)
        view = client.get(f"/v1/status?after={number}&wait={max(0.0, min(left, POLL)):.3f}")
        on_trial = answer["revision"] is not None and view["on_trial"] == answer["revision"]
        if view["pass"] > number and not on_trial:
            _require_kept(client, answer["revision"])
            if view["settled"]:
                click.echo(f"done after {time.monotonic() - began:.1f} s", err=True)
                return
        if time.monotonic() - said >= REPEAT_PROGRESS:
            said = time.monotonic()
            click.echo(f"{_describe_wait(view)} ({said - began:.0f} s)", err=True)
        if left <= 0:
            wrong = "; ".join(condition["message"] for condition in view["conditions"][:4]) or "it is still at work"
            hint = "the daemon goes on: ikeorch status; or go back: ikeorch rollback"
            raise PendingError(f"not done after {timeout:.0f} s ({wrong})", hint=hint)


def _describe_wait(view: Json) -> str:
    """What is waited for, and why it takes so long where something is known."""
    if view["renewing"]:
        line = f"{len(view['renewing'])} tunnels still have their old IKE_SA"
    elif view["changing"]:
        line = f"{len(view['changing'])} tunnels are being changed, or wait for their turn"
    else:
        return "the daemon is at work"
    why = sorted({each["message"] for each in view["conditions"] if each["subject"] in view["changing"]})
    return f"{line}: {why[0]}" if why else line


def _require_kept(client: Client, number: int | None) -> None:
    """Say what became of a revision that is not in force any more."""
    if number is None:
        return
    revisions = {each["revision"]: each for each in client.get("/v1/history")["revisions"]}
    mine, newest = revisions[number], revisions[max(revisions)]
    keeps = f"the change is kept: ikeorch history {number}"
    if mine["outcome"] == "rolled back":
        raise IkeorchError(f"undone: {mine['reason']}", hint=f"file and gateway are as before; {keeps}")
    if mine["outcome"] == "replaced":
        what = f"revision {number} was replaced by {newest['revision']} ({newest['command']})"
        raise IkeorchError(what, hint=f"see `ikeorch history`; {keeps}")


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
        if answer["on_trial"] is not None:
            click.echo("packets have not proven it yet: if they do not, it is undone all the same", err=True)
    return ExitCode.OK


@click.command()
@click.argument("revision", required=False, type=click.IntRange(1))
@risk_option
@output_option
@socket_option
def rollback(client: Client, revision: int | None, accept_risk: tuple[str, ...], output: str) -> int:
    """Put REVISION in force again, or the one before; the file on disk becomes it too.

    Going back twice goes further back, never to what was just left or undone. `ikeorch history` lists all revisions,
    `ikeorch history N` shows one.
    """
    answer = client.request("POST", "/v1/rollback", {"revision": revision, "accept_risks": accept_risk})
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"rolled back: revision {answer['revision']} is in force again")
    return ExitCode.OK


@click.command()
@click.argument("revision", required=False, type=click.IntRange(1))
@output_option
@socket_option
def history(client: Client, revision: int | None, output: str) -> int:
    """Show every revision: when, who, by which command, and what became of it; or the files of REVISION."""
    if revision is not None:
        _show_revision(client.get(f"/v1/history/{revision}"), output)
        return ExitCode.OK
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


def _show_revision(view: Json, output: str) -> None:
    if output == "json":
        print_json(view)
        return
    for file in view["files"]:
        if output == "table":
            click.echo(f"# revision {view['revision']}, {view['outcome']}: {file['name']}")
        click.echo(file["text"], nl=not file["text"].endswith("\n"))
