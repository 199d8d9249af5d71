"""The entry point: the command groups, loaded when used, and every error as text with its exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from ikeorch import __version__
from ikeorch.errors import ExitCode, IkeorchError

_COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("ikeorch.cli.apply:apply", "Put the configuration file in force."),
    "confirm": ("ikeorch.cli.apply:confirm", "Keep the change that waits for it."),
    "history": ("ikeorch.cli.apply:history", "Show every revision that was in force."),
    "rollback": ("ikeorch.cli.apply:rollback", "Put an older revision in force again."),
    "bgp": ("ikeorch.cli.bgp:bgp", "Show the sessions with the fabric and what it was told."),
    "config": ("ikeorch.cli.config:config", "Check, show and explain the configuration."),
    "daemon": ("ikeorch.cli.daemon:daemon", "Run ikeorchd in the foreground."),
    "lab": ("ikeorch.cli.lab:lab", "Run the lab: whole sites on this machine."),
    "peer": ("ikeorch.cli.peer:peer", "Add, remove, list and show peers."),
    "pki": ("ikeorch.cli.pki:pki", "The internal CA: make one, issue certificates."),
    "probe": ("ikeorch.cli.probe:probe", "Run the prober in the foreground."),
    "plan": ("ikeorch.cli.plan:plan", "Show what the daemon would change now."),
    "status": ("ikeorch.cli.status:status", "Show tunnels and everything that is wrong."),
    "tunnel": ("ikeorch.cli.tunnel:tunnel", "Add, remove, list and show tunnels."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; their help lines stand in a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ikeorch")
def cli() -> None:
    """Parallel IKEv2 tunnels between datacentre gateways.

    \b
    Exit codes: 0 ok, 1 error, 2 changes pending (plan --detailed-exitcode),
    3 degraded (status --check), 4 daemon unreachable, 5 charon unreachable,
    64 usage, 75 try again or pending on the peer, 77 not permitted.
    """  # noqa: D301 - \b is click's mark for a paragraph that is not wrapped


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: Sequence[str]) -> int:
    """Run a command.

    Returns:
        Its exit code (DESIGN.md, section 7); click's own 2 for usage errors becomes 64.
    """
    try:
        result = cli.main(args=list(arguments), prog_name="ikeorch", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return ExitCode.USAGE
    except click.ClickException as error:
        error.show()
        return ExitCode.ERROR
    except (click.Abort, KeyboardInterrupt):
        click.echo("ikeorch: interrupted", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.OK
    except IkeorchError as error:
        click.echo(f"ikeorch: {error}", err=True)
        return error.exit_code
    return result if isinstance(result, int) else ExitCode.OK
