"""``ikeorch plan``: what the daemon would change now, or, without it, what it would have changed then."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ikeorch.cli.client import Client, Json
from ikeorch.cli.options import ANY_PATH, output_option, print_json, print_rows, socket_option
from ikeorch.errors import ExitCode, UsageError


@click.command()
@click.option("--explain", is_flag=True, help="Show the ip, nft, swanctl and ExaBGP lines that each action stands for.")
@click.option("--out", "plan_file", type=ANY_PATH, help="Save the plan for `ikeorch apply FILE`.")
@click.option("--save-snapshot", "save", type=ANY_PATH, help="Save all that was seen, for --offline. No secrets in it.")
@click.option("--offline", "snapshot", type=ANY_PATH, help="Plan with this snapshot, without daemon and root.")
@click.option("--config", "config", type=ANY_PATH, help="With --offline: plan this file, not the one of the snapshot.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when something would change.")
@output_option
@socket_option
def plan(
    client: Client,
    plan_file: Path | None,
    save: Path | None,
    snapshot: Path | None,
    config: Path | None,
    *,
    output: str,
    explain: bool,
    detailed_exitcode: bool,
) -> int:
    """Show what `ikeorch apply` would change now, and why: the file as it is, against the world as it is.

    In a settled gateway that is nothing. Each line begins with + (add), ~ (change), - (remove) or ! (risk).
    Exits 5 when charon does not answer, 1 when something else could not be seen: the plan is not all of it then.
    """
    if snapshot is not None:
        if save is not None or plan_file is not None:
            raise UsageError("--offline goes with neither --out nor --save-snapshot")
        view = _plan_offline(snapshot, config, explain=explain)
    elif config is not None:
        raise UsageError("--config goes with --offline only", hint="the daemon plans the file that it was started with")
    else:
        view = client.get(f"/v1/plan?explain={explain:d}&snapshot={save is not None:d}")
    saved = view.pop("snapshot", None)
    if save is not None:
        _save(save, saved)
    if plan_file is not None:
        _save(plan_file, view)
    return _show(view, output, explain=explain, detailed_exitcode=detailed_exitcode)


def _plan_offline(snapshot: Path, config: Path | None, *, explain: bool) -> Json:
    from ikeorch.config.loader import read_config
    from ikeorch.config.snapshot import read_snapshot
    from ikeorch.daemon.planning import plan_offline

    loaded = None if config is None else read_config(config)
    return plan_offline(read_snapshot(snapshot), loaded, explain=explain)


def _show(view: Json, output: str, *, explain: bool, detailed_exitcode: bool) -> int:
    actions, unseen = view["actions"], view["unseen"]
    if output == "json":
        print_json(view)
    else:
        rows = [(each["symbol"], each["action"], each["reason"], each["impact"]) for each in actions]
        risks = [(each["symbol"], each["risk"], each["message"], f"needs {each['flag']}") for each in view["risks"]]
        if explain and (actions or risks):
            _print_explained([*actions, *view["risks"]], [*rows, *risks], output)
        elif actions or risks:
            print_rows(("", "ACTION", "REASON", "IMPACT"), [*rows, *risks], output)
        elif output == "table" and not unseen:
            click.echo("nothing to change: the gateway is as configured")
        for each in view["later"] if output == "table" else ():
            tunnels = ", ".join(each["once_proved"])
            click.echo(f"later: {each['action']}, once packets have proved {tunnels}")
    for condition in unseen:
        click.echo(f"not seen: {condition['code']}: {condition['message']}; {condition['hint']}", err=True)
    if unseen:
        codes = {condition["code"] for condition in unseen}
        return ExitCode.CHARON_UNREACHABLE if "charon-unreachable" in codes else ExitCode.ERROR
    return ExitCode.CHANGES_PENDING if detailed_exitcode and actions else ExitCode.OK


def _print_explained(actions: list[Json], rows: list[tuple[str, str, str, str]], output: str) -> None:
    """Each action with its lines below, and each risk; plain lines begin with a tab."""
    for each, (symbol, action, reason, impact) in zip(actions, rows, strict=True):
        if output == "plain":
            print_rows((), [(symbol, action, reason, impact)], output)
        else:
            click.echo(f"{symbol} {action}  ({reason}; {impact})")
        for line in each.get("commands", ()):
            click.echo(f"\t{line}" if output == "plain" else f"      {line}")


def _save(path: Path, view: Json | None) -> None:
    try:
        path.write_text(json.dumps(view, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from None
