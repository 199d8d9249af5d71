"""What a demo says while it runs, and the table at its end."""

from __future__ import annotations

import time

from lab.node import Node
from lab.scenarios.sites import ikeorch


class Report:
    """Says what happens, and remembers what was claimed and whether it held."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.results: list[tuple[str, str, bool]] = []

    def title(self, text: str) -> None:
        """A new step."""
        print(f"\n== {text}  [{time.monotonic() - self.began:.0f} s]", flush=True)

    def say(self, text: str) -> None:
        """A sentence or an output."""
        print(text.rstrip(), flush=True)

    def command(self, node: Node, *arguments: str) -> None:
        """Show a command and what it prints."""
        self.say(f"{node.name}# ikeorch {' '.join(arguments)}")
        self.say(ikeorch(node, *arguments).stdout)

    def claim(self, what: str, measured: str, *, held: bool) -> None:
        """A claim with the figure that was measured."""
        self.results.append((what, measured, held))
        self.say(f"{'ok ' if held else 'NOT'} {what}: {measured}")

    def summary(self) -> bool:
        """All claims as a table; True when all held."""
        self.title("Summary")
        width = max(len(what) for what, _, _ in self.results)
        for what, measured, held in self.results:
            self.say(f"  {'ok ' if held else 'NOT'}  {what.ljust(width)}  {measured}")
        good = all(held for _, _, held in self.results)
        self.say(f"\n{'Everything held' if good else 'Something did not hold'}, {time.monotonic() - self.began:.0f} s.")
        return good
