"""YAML text as plain data with the place of each value, bounded against hostile input."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from ikeorch.config.problems import InvalidConfigError, Location, Problem

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 16


class _Constructor(RoundTripConstructor):
    """ruamel's, whose complaints about a value (a date of the 99th, a number too long) say where it stands."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401 - ruamel's signature
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError) as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from error


def new_yaml() -> YAML:
    """The one YAML dialect: 1.2, comments and quotes kept, duplicate keys refused."""
    yaml = YAML(typ="rt", pure=True)
    yaml.Constructor = _Constructor
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
        return Problem(source=self.source, location=location, line=line, column=column, reason=reason, hint=hint)


def place_of(text: str, position: int) -> tuple[int, int]:
    """Line and column (from 1) of a character."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def parse_document(text: str, source: str, *, may_be_empty: bool = False) -> Document:
    """Parse YAML.

    Args:
        text: at most 4 MiB.
        source: the file's name, for people.
        may_be_empty: take a file without any value for an empty mapping.

    Raises:
        InvalidConfigError: no YAML, duplicate keys, not a mapping, or too large once its aliases are followed; always
            with a line.
    """

    def refuse(line: int, column: int, reason: str, hint: str = "") -> InvalidConfigError:
        problem = Problem(source=source, location=(), line=line, column=column, reason=reason, hint=hint)
        return InvalidConfigError(source, [problem])

    if len(text) > MAX_BYTES:
        raise refuse(*place_of(text, MAX_BYTES), f"the file is larger than {MAX_BYTES} bytes", "is it the right file?")
    position = _too_deep(text)
    if position is not None:
        raise refuse(*place_of(text, position), f"nested deeper than {MAX_DEPTH} levels", _DEPTH_HINT)
    try:
        root = new_yaml().load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        reason = " ".join(str(error.problem or error.context or "no valid YAML").split())
        raise refuse(line, column, f"YAML: {reason[:_LONGEST]}", _yaml_hint(reason)) from error
    except ReaderError as error:
        reason = f"YAML: the character U+{_code(error):04X} may not stand in a file"
        raise refuse(*place_of(text, error.position), reason, "take it away") from error
    except (YAMLError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:_LONGEST]
        raise refuse(1, 1, f"YAML: {reason}", "the line is not known") from error
    if root is None and may_be_empty:
        root = CommentedMap()
    if not isinstance(root, CommentedMap):
        hint = "begin with 'schema_version: 1' and a 'gateway:' section"
        raise refuse(1, 1, "not a mapping", hint)
    document = Document(source, root, {})
    try:
        data = _Plain().convert(root, ())
    except _TooLargeError as error:
        line, column = document.place(error.location)
        raise refuse(line, column, str(error), _DEPTH_HINT) from error
    assert isinstance(data, dict)
    return Document(source, root, data)


_LONGEST = 200
_DEPTH_HINT = "no configuration needs that; look for a bracket or an alias too many"


def _code(error: ReaderError) -> int:
    """Ruamel gives the character, or its number."""
    return ord(error.character) if isinstance(error.character, str) else int(error.character)


def _yaml_hint(reason: str) -> str:
    """What to do about the parser's commonest complaints."""
    for words, hint in (
        ("duplicate key", "write each key once"),
        ("'\\t'", "indent with spaces: YAML takes no tabs"),
        ("mapping values are not allowed", "put a text that holds ': ' in quotes, and check the indentation"),
        ("undefined alias", "write the value out, or put a text that begins with * in quotes"),
    ):
        if words in reason:
            return hint
    return "check quotes, brackets and indentation from there upwards"


def _too_deep(text: str) -> int | None:
    """Where too many brackets, braces or block entries are open at once; those in texts and comments count too.

    The parser's time grows with the square of the depth, and it recurses.
    """
    depth = 0
    for match in re.finditer(r"[][{}]", text):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        if depth > MAX_DEPTH * 4:
            return match.start()
    for match in _ENTRIES.finditer(text):
        if len(re.findall(r"[-?:]", match[0])) > MAX_DEPTH * 4:
            return match.start()
    indents: list[int] = []
    for match in _INDENT.finditer(text):
        width = len(match[1])
        while indents and indents[-1] >= width:
            indents.pop()
        indents.append(width)
        if len(indents) > MAX_DEPTH * 4:
            return match.start(1)
    return None


_ENTRIES = re.compile(r"^ *(?:[-?:] +)+", re.MULTILINE)
_INDENT = re.compile(r"^( *)[^ \n#]", re.MULTILINE)


class _TooLargeError(ValueError):
    """Nested too deep, or too many values once aliases are followed."""

    def __init__(self, reason: str, location: Location) -> None:
        super().__init__(reason)
        self.location = location


class _Plain:
    """Copies ruamel's tree into plain Python values, counting as it goes."""

    def __init__(self) -> None:
        self.nodes = 0

    def convert(self, node: object, location: Location) -> object:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooLargeError(f"more than {MAX_NODES} values", location)
        if len(location) > MAX_DEPTH:
            raise _TooLargeError(f"nested deeper than {MAX_DEPTH} levels", location)
        if isinstance(node, dict):
            return {self._key(key): self.convert(value, (*location, key)) for key, value in node.items()}
        if isinstance(node, list):
            return [self.convert(value, (*location, position)) for position, value in enumerate(node)]
        if node is None or isinstance(node, bool):
            return node
        for kind in (int, float, str):
            if isinstance(node, kind):
                return kind(node)
        return str(node)

    @staticmethod
    def _key(key: object) -> str:
        return key if type(key) is str else str(key)
