"""What is wrong with a configuration, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ikeorch.errors import ConfigError

Location = tuple[str | int, ...]
"""Path of keys and list positions from the top of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        location: path in the file, empty for the file as a whole.
        line: from 1, 0 when not known.
        column: from 1, 0 when not known.
        reason: what is wrong.
        hint: what to write instead, "" when the reason says it.
    """

    location: Location
    line: int = 0
    column: int = 0
    reason: str
    hint: str = ""

    @property
    def path(self) -> str:
        """The location as people write it: ``peers[0].inner[1]``."""
        text = ""
        for part in self.location:
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
        return text.removeprefix(".")

    def render(self, source: str) -> str:
        """``file:line:column: path: reason; hint``."""
        place = f"{source}:{self.line}:{self.column}" if self.line else source
        subject = f"{self.path}: " if self.location else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}: {subject}{self.reason}{hint}"


class InvalidConfigError(ConfigError):
    """A configuration with at least one problem; nothing of it was taken.

    Args:
        source: the file's name, for people.
        problems: at least one, in the file's order.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        count = len(self.problems)
        super().__init__(
            f"the configuration has {count} problem{'s' if count != 1 else ''}",
            where=source,
            hint="nothing was changed",
        )

    def __str__(self) -> str:
        """One line a problem."""
        return "\n".join(problem.render(self.source) for problem in self.problems)
