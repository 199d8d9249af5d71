"""YAML text as plain data with the place of each value, bounded against hostile input."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from ikeorch.config.problems import InvalidConfigError, Location, Problem

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 16


def new_yaml() -> YAML:
    """The one YAML dialect: 1.2, comments and quotes kept, duplicate keys refused."""
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.allow_duplicate_keys = False
    return yaml


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    Attributes:
        source: its name, for people.
        root: ruamel's tree with comments and places.
        data: the same as plain dicts, lists and scalars.
    """

    source: str
    root: CommentedMap
    data: dict[str, Any]

    def place(self, location: Location) -> tuple[int, int]:
        """Line and column (from 1) of a value, or of the nearest thing around it that stands in the file."""
        node: Any = self.root
        place = (1, 1)
        for part in location:
            try:
                if isinstance(node, CommentedMap) and part in node:
                    line, column = node.lc.key(part)
                elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                    line, column = node.lc.item(part)
                else:
                    break
            except (KeyError, TypeError, AttributeError):
                break
            place = (line + 1, column + 1)
            node = node[part]
        return place

    def problem(self, location: Location, reason: str, hint: str = "") -> Problem:
        """A problem at a location of this file."""
        line, column = self.place(location)
        return Problem(location=location, line=line, column=column, reason=reason, hint=hint)


def parse_document(text: str, source: str) -> Document:
    """Parse YAML.

    Args:
        text: at most 4 MiB.
        source: the file's name, for people.

    Raises:
        InvalidConfigError: no YAML, duplicate keys, not a mapping, or too large once its aliases are followed.
    """
    if len(text) > MAX_BYTES:
        raise InvalidConfigError(source, [Problem(location=(), reason=f"the file is larger than {MAX_BYTES} bytes")])
    if _flow_depth(text) > MAX_DEPTH * 4:  # the parser's time grows with the square of it
        raise InvalidConfigError(source, [Problem(location=(), reason=f"nested deeper than {MAX_DEPTH} levels")])
    try:
        root = new_yaml().load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        reason = " ".join(str(error.problem or error.context or "no valid YAML").split())
        raise InvalidConfigError(
            source, [Problem(location=(), line=line, column=column, reason=f"YAML: {reason}")]
        ) from error
    except (YAMLError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidConfigError(source, [Problem(location=(), reason=f"YAML: {reason}")]) from error
    if not isinstance(root, CommentedMap):
        hint = "begin with 'schema_version: 1' and a 'gateway:' section"
        raise InvalidConfigError(source, [Problem(location=(), line=1, column=1, reason="not a mapping", hint=hint)])
    try:
        data = _Plain().convert(root, 0)
    except _TooLargeError as error:
        raise InvalidConfigError(source, [Problem(location=(), reason=str(error))]) from error
    assert isinstance(data, dict)
    return Document(source, root, data)


def _flow_depth(text: str) -> int:
    """How many brackets and braces are open at once, at most; those in texts and comments count too."""
    depth = deepest = 0
    for character in re.findall(r"[][{}]", text):
        depth = depth + 1 if character in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


class _TooLargeError(ValueError):
    """Nested too deep, or too many values once aliases are followed."""


class _Plain:
    """Copies ruamel's tree into plain Python values, counting as it goes."""

    def __init__(self) -> None:
        self.nodes = 0

    def convert(self, node: object, depth: int) -> object:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooLargeError(f"more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise _TooLargeError(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, dict):
            return {self._key(key): self.convert(value, depth + 1) for key, value in node.items()}
        if isinstance(node, list):
            return [self.convert(value, depth + 1) for value in node]
        if node is None or isinstance(node, bool):
            return node
        for kind in (int, float, str):
            if isinstance(node, kind):
                return kind(node)
        return str(node)

    @staticmethod
    def _key(key: object) -> str:
        return key if type(key) is str else str(key)
