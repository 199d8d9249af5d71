"""What is wrong with a configuration, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ikeorch.errors import ConfigError

MAX_KEY = 80
Location = tuple[str | int, ...]
"""Path of keys and list positions from the top of the file."""


def path_text(location: Location) -> str:
    """A location as people write it, ``peers[0].inner[1]``; keys that would disturb a terminal are quoted."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part if part.isprintable() and len(part) <= MAX_KEY else repr(part)[:MAX_KEY]}"
    return text.removeprefix(".")


class Finding(NamedTuple):
    """What does not fit together.

    Attributes:
        location: where it stands.
        reason: what is wrong; `ikeorch.config.sources.PLACE` in it stands for `other`.
        hint: what to write instead.
        other: the second place, which may be in another file.
    """

    location: Location
    reason: str
    hint: str
    other: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        source: the file, "" for the one that the report is about.
        location: path in the file, empty for the file as a whole.
        line: from 1, 0 when not known.
        column: from 1, 0 when not known.
        reason: what is wrong.
        hint: what to write instead, "" when the reason says it.
    """

    source: str = ""
    location: Location
    line: int = 0
    column: int = 0
    reason: str
    hint: str = ""

    @property
    def path(self) -> str:
        """The location as people write it: ``peers[0].inner[1]``."""
        return path_text(self.location)

    def render(self, source: str) -> str:
        """``file:line:column: path: reason; hint``."""
        file = self.source or source
        place = f"{file}:{self.line}:{self.column}" if self.line else file
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
        self.problems = tuple(sorted(problems, key=self._order))
        count = len(self.problems)
        super().__init__(
            f"the configuration has {count} problem{'s' if count != 1 else ''}",
            where=source,
            hint="nothing was changed",
        )

    def _order(self, problem: Problem) -> tuple[bool, str, int, int]:
        """The main file first, then the others by name."""
        file = problem.source or self.source
        return file != self.source, file, problem.line, problem.column

    def __str__(self) -> str:
        """One line a problem."""
        return "\n".join(problem.render(self.source) for problem in self.problems)
