"""``ikeorch config``: needs neither the daemon nor root."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikeorch.cli.client import Client
from ikeorch.cli.options import ANY_PATH, DEFAULT_CONFIG, output_option, print_json, print_rows, socket_option
from ikeorch.cli.why import echo_why
from ikeorch.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from ikeorch.config.fields import Field
    from ikeorch.config.problems import Problem


@click.group()
def config() -> None:
    """Check, show and explain the configuration."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG)
@output_option
def check(file: Path, output: str) -> int:
    """Check FILE and all that it includes, and report every problem with file, line and hint."""
    from ikeorch.config.loader import read_config
    from ikeorch.config.problems import InvalidConfigError

    def shown(problem: Problem) -> dict[str, object]:
        return {
            "file": problem.source or str(file),
            "path": problem.path,
            "line": problem.line,
            "column": problem.column,
            "reason": problem.reason,
            "hint": problem.hint,
        }

    try:
        loaded = read_config(file)
    except InvalidConfigError as error:
        if output == "json":
            problems = [shown(problem) for problem in error.problems]
            print_json({"format_version": 1, "file": str(file), "valid": False, "problems": problems, "warnings": []})
            return ExitCode.ERROR
        raise
    if output == "json":
        warnings = [shown(problem) for problem in loaded.warnings]
        print_json({"format_version": 1, "file": str(file), "valid": True, "problems": [], "warnings": warnings})
        return ExitCode.OK
    for warning in loaded.warnings:
        click.echo(f"warning: {warning.render(str(file))}", err=True)
    tunnels = sum(peer.tunnels.count for peer in loaded.spec.peers)
    click.echo(f"{file}: valid; gateway {loaded.spec.name}, {len(loaded.spec.peers)} peers, {tunnels} tunnels")
    return ExitCode.OK


@config.command()
def schema() -> int:
    """Print the JSON Schema (2020-12) of the configuration file, for editors and for checks of your own."""
    from ikeorch.config.json_schema import configuration_schema

    print_json(configuration_schema())
    return ExitCode.OK


@config.command()
@click.argument("field", required=False)
@output_option
def explain(field: str | None, output: str) -> int:
    """Explain FIELD, such as peers[].tunnels.rekey_time; without it, list every field of the file."""
    from ikeorch.config.fields import all_fields, find_field, near_fields

    if field is None:
        if output == "json":
            print_json({"format_version": 1, "fields": [_field_view(each) for each in all_fields()]})
        else:
            tree = [(each.path, each.kind, _default(each), each.description) for each in all_fields()]
            print_rows(("FIELD", "TYPE", "DEFAULT", "MEANING"), tree, output)
        return ExitCode.OK
    found = find_field(field)
    if found is None:
        near = ", ".join(near_fields(field))
        hint = f"did you mean {near}?" if near else "`ikeorch config explain` lists every field"
        raise UsageError(f"there is no field {field!r}", hint=hint)
    below = [each for key in found.keys if (each := find_field(f"{found.path}.{key}"))]
    if output == "json":
        keys = [_field_view(each) for each in below]
        print_json({"format_version": 1, "field": _field_view(found), "keys": keys})
        return ExitCode.OK
    rows = [(name, value) for name, value in _field_rows(found) if value]
    if output == "plain":
        print_rows(("", ""), [("path", found.path), ("description", found.description), *rows], output)
        return ExitCode.OK
    click.echo(f"{found.path}: {found.description}")
    for name, value in rows:
        click.echo(f"  {f'{name}:':<12}{value}")
    if below:
        click.echo("\nIts keys:")
        print_rows(
            ("KEY", "TYPE", "DEFAULT", "MEANING"),
            [(each.name, each.kind, _default(each), each.description) for each in below],
            output,
        )
    return ExitCode.OK


@config.command()
@click.option("--effective", is_flag=True, help="With every default filled in, as one file.")
@click.option("--config", "file", type=ANY_PATH, help="Show this file, without the daemon.")
@click.option("--as-peer", is_flag=True, help="This gateway as a block for another one's `ikeorch peer add`.")
@click.option(
    "--inner",
    multiple=True,
    metavar="NETWORK",
    help="With --as-peer: a network for inner addresses that no other bundle has, such as 10.255.2.0/27; one a family.",
)
@click.option("--capacity", default="10G", show_default=True, metavar="RATE", help="With --as-peer: of one tunnel.")
@output_option
@socket_option
def show(
    client: Client,
    file: Path | None,
    inner: tuple[str, ...],
    capacity: str,
    output: str,
    *,
    effective: bool,
    as_peer: bool,
) -> int:
    """Show the configuration in force, as written or with every default.

    Asks the daemon; with --config FILE that file is read instead. What is shown holds no secrets.

    With --as-peer it prints what a gateway that does not know this one yet needs of it. There: `ikeorch peer add -f -`
    with the block, then `ikeorch tunnel add` of this gateway, whose block comes back here.
    """
    if (inner and not as_peer) or (effective and as_peer):
        raise UsageError("--as-peer goes with --inner, and without --effective")
    if file is None:
        view = client.get("/v1/config")
    else:
        from ikeorch.config.loader import read_config
        from ikeorch.config.show import configuration_view

        view = configuration_view(read_config(file))
    if as_peer:
        block = _first_block(view["effective_text"], inner, capacity)
        if output == "json":
            print_json({"format_version": 1, "peer_block": block})
        else:
            click.echo(block, nl=False)
        return ExitCode.OK
    which = "effective" if effective else "written"
    if output == "json":
        print_json(
            {
                "format_version": 1,
                "effective": effective,
                "sources": view["sources"],
                "configuration": view[which],
                "why": view.get("why"),
            }
        )
    else:
        click.echo(view[f"{which}_text"], nl=False)
    if output == "table" and view.get("why", {}).get("because"):
        echo_why(view["why"], err=True)
    return ExitCode.OK


def _first_block(text: str, inner: tuple[str, ...], capacity: str) -> str:
    from ikeorch.config.block import render_first_block
    from ikeorch.config.loader import load_config
    from ikeorch.config.values import parse_network
    from ikeorch.core.units import BitsPerSecond, parse_rate

    try:
        networks = [parse_network(each) for each in inner]
        rate = BitsPerSecond(parse_rate(capacity))
    except ValueError as error:
        reason, _, hint = str(error).rpartition("; ")
        raise UsageError(reason or hint, hint=hint if reason else "") from None
    return render_first_block(load_config(text, "the configuration in force").spec, networks, rate)


def _default(field: Field) -> str:
    return "required" if field.required else field.default or "-"


def _field_rows(field: Field) -> tuple[tuple[str, str], ...]:
    return (
        ("type", field.kind),
        ("form", field.form),
        ("unit", field.unit),
        ("range", field.limits),
        ("default", "none, it must be written" if field.required else field.default),
        ("stands for", field.stands_for),
        ("example", field.example),
    )


def _field_view(field: Field) -> dict[str, Any]:
    return {
        "path": field.path,
        "description": field.description,
        "type": field.kind,
        "form": field.form or None,
        "unit": field.unit or None,
        "range": field.limits or None,
        "required": field.required,
        "default": field.default or None,
        "choices": list(field.choices),
        "stands_for": field.stands_for or None,
        "example": field.example,
        "keys": list(field.keys),
    }
