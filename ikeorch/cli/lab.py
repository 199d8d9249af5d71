"""`ikeorch lab`: whole sites on this machine, on a kernel that can do everything that ikeorch needs.

Only click is imported here; the lab itself (the package `lab` beside this one) when a command runs.
"""

from __future__ import annotations

import json
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


@lab.command()
@click.option(
    "--topology",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Topology in containerlab's format.  [default: lab/two-dc.clab.yml]",
)
@click.option("--on", type=_ON, default="auto", show_default=True, help="The host's kernel, or a guest.")
@click.option("--cpu", type=click.IntRange(min=0), help="CPU that the guest is pinned to.  [default: a free one]")
@click.option("--tunnels", type=click.IntRange(min=0), default=0, help="Tunnels to bring up at once.")
@click.option("--bare", is_flag=True, help="Without certificates and daemons.")
def up(topology: Path | None, on: str, cpu: int | None, tunnels: int, *, bare: bool) -> None:
    """Start a lab in the background: the sites, with charon and ikeorchd on the gateways."""
    from lab.background import start
    from lab.runner import TWO_DC

    arguments = [str((topology or TWO_DC).resolve()), "--on", on, "--tunnels", str(tunnels)]
    arguments += ["--cpu", str(cpu)] if cpu is not None else []
    arguments += ["--bare"] if bare else []

    def work() -> int:
        held = start(arguments, lambda line: click.echo(f"lab: {line}", err=True))
        click.echo(f"The lab {held.name} is up with {len(held.nodes)} nodes. Try:")
        click.echo("  ikeorch lab exec gw-a -- ikeorch status")
        click.echo("  ikeorch lab shell gw-a")
        click.echo("  ikeorch lab down")
        return 0

    _translated(work)


@lab.command()
def down() -> None:
    """End the background lab; nothing of it remains."""
    from lab.background import stop

    def work() -> int:
        name = stop()
        click.echo("No lab was up." if name is None else f"The lab {name} is down.")
        return 0

    _translated(work)


@lab.command()
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(output: str) -> None:
    """Show the background lab: its nodes and their daemons."""
    from lab.lab_status import collect_status, render_table

    def work() -> int:
        found = collect_status()
        click.echo(json.dumps(found, indent=2) if output == "json" else render_table(found))
        return 0

    _translated(work)


@lab.command("exec")
@click.option("--timeout", type=click.FloatRange(min=0.1), help="Seconds.  [default: none]")
@click.argument("node")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec_(ctx: click.Context, node: str, command: tuple[str, ...], timeout: float | None) -> None:
    """Run COMMAND in NODE of the background lab; streams and exit code are passed through."""
    from lab.background import need_running
    from lab.terminal import execute

    ctx.exit(_translated(lambda: execute(need_running(), node, command, timeout=timeout)))


@lab.command()
@click.argument("node", default="gw-a")
@click.pass_context
def shell(ctx: click.Context, node: str) -> None:
    """Open a shell in NODE (gw-a by default) of the background lab."""
    from lab.background import need_running
    from lab.terminal import execute

    def work() -> int:
        held = need_running()
        names = ", ".join(each.name for each in held.nodes if each.name != node)
        click.echo(f"A shell in {node}; `exit` ends it. In other terminals: ikeorch lab shell NODE ({names}).")
        return execute(held, node, ("bash",))

    ctx.exit(_translated(work))
