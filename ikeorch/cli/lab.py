"""`ikeorch lab`: whole sites on this machine, on a kernel that can do everything that ikeorch needs.

Only click is imported here; the lab itself (the package `lab` beside this one) when a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

_ON = click.Choice(["auto", "guest", "host"])


@click.group()
def lab() -> None:
    """Run the lab: whole sites on this machine."""


@lab.command()
@click.option("--cpu", type=click.IntRange(min=0), help="CPU that the guest is pinned to.  [default: a free one]")
@click.option("--memory", type=click.IntRange(min=256), default=3072, show_default=True, help="Guest's memory in MiB.")
@click.option("--timeout", type=click.FloatRange(min=1), default=1800.0, show_default=True, help="Seconds.")
@click.option("--on", type=_ON, default="auto", show_default=True, help="The host's kernel, or a guest.")
@click.option(
    "--share",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that the command can write to; all else is thrown away.  [default: build/ of the checkout]",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(  # noqa: PLR0917 - click passes them by name
    ctx: click.Context, command: tuple[str, ...], cpu: int | None, memory: int, timeout: float, on: str, share: Path
) -> None:
    """Run COMMAND on a lab kernel; its output and exit code are passed through."""
    from lab.guest import REPO, GuestOptions
    from lab.run import run as run_on_kernel

    options = GuestOptions(cpu=cpu, memory=memory, share=(share or REPO / "build").resolve())
    ctx.exit(_translated(lambda: run_on_kernel(command, on=on, options=options, timeout=timeout)))


def _translated(work: Callable[[], int]) -> int:
    """Run something of the lab; its errors become the command line's."""
    from lab.control import LabError

    try:
        return work()
    except LabError as error:
        raise click.ClickException(str(error)) from error
