"""``ikeorch config``: needs neither the daemon nor root."""

from __future__ import annotations

from pathlib import Path

import click

from ikeorch.cli.options import DEFAULT_CONFIG, output_option, print_json
from ikeorch.errors import ExitCode


@click.group()
def config() -> None:
    """Check the configuration."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG)
@output_option
def check(file: Path, output: str) -> int:
    """Check FILE and report every problem with file, line and hint."""
    from ikeorch.config.loader import read_config
    from ikeorch.config.problems import InvalidConfigError, Problem

    def shown(problem: Problem) -> dict[str, object]:
        return {
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
