"""A command of the background lab on the caller's own terminal."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Callable
from pathlib import Path

from lab.background import HeldLab, connect
from lab.channel import Streams, interrupt, run_command
from lab.guest import REPO
from lab.run import kept_environment
from lab.wire import Start


def execute(lab: HeldLab, node: str | None, argv: tuple[str, ...], *, timeout: float | None = None) -> int:
    """Run a command in the background lab, with our streams as its own.

    Where our input and output are a terminal, it gets a terminal too, and keys such as Ctrl-C go to it.

    Args:
        lab: The lab.
        node: Where to run it, or None for outside all nodes.
        argv: Program and arguments.
        timeout: Seconds, or None.

    Returns:
        Its exit code.

    Raises:
        LabError: It cannot be started, or the lab ends meanwhile.
    """
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    size = os.get_terminal_size(0) if interactive else os.terminal_size((80, 24))
    environment = kept_environment(Path(sys.executable).parent)
    start = Start(
        id=1,
        argv=argv,
        node=node,
        cwd="/" if node else str(REPO),
        env=environment,
        tty=interactive,
        rows=size.lines,
        cols=size.columns,
    )
    channel = connect(lab)
    try:
        if not interactive:
            previous = signal.signal(signal.SIGTERM, lambda *_: interrupt(channel, start, signal.SIGTERM))
            try:
                return run_command(channel, start, Streams(stdin=0), timeout=timeout)
            finally:
                signal.signal(signal.SIGTERM, previous)
        return _on_terminal(lambda changed: run_command(channel, start, Streams(stdin=0), resized=changed))
    finally:
        channel.close()


def _on_terminal(run: Callable[[Callable[[], tuple[int, int] | None]], int]) -> int:
    """Run something with our terminal in raw mode; it gets a function that tells new sizes."""
    sizes: list[tuple[int, int]] = []

    def on_change(*_: object) -> None:
        size = os.get_terminal_size(0)
        sizes.append((size.lines, size.columns))

    before = termios.tcgetattr(0)
    previous = signal.signal(signal.SIGWINCH, on_change)
    try:
        tty.setraw(0)
        return run(lambda: sizes.pop() if sizes else None)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, previous)
