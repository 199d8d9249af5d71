"""Add an entry to ``peers``, or take one out, by whole lines: every other line of the file stays as it is.

ruamel keeps a comment at the node before it, so it would move a comment that stands behind the list, or lose it with
the last entry. What cannot be done by lines, such as a list in brackets, is the caller's to do in another way: the
functions return None then. They never return a text that means something else than the change.
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.comments import CommentedSeq

from ikeorch.config.document import Document, parse_document
from ikeorch.config.problems import InvalidConfigError

KEY = "peers"
_EMPTY = re.compile(r"peers:(?:[ ]*(?:\[[ ]*\]|~|null))?(?P<rest>[ ]*(?:#[^\r]*)?)")
_NOTHING = re.compile(r"\s*(?:#.*)?")


_KEY_ALONE = re.compile(r"(?P<indent> *)[^ #\-][^#]*:\s*(?:#.*)?")
_DASH = re.compile(r"(?P<indent> *)-(?P<space> *)(?:[^ #].*)?")


def list_indent(text: str) -> tuple[int, int] | None:
    """How the first list of a file is indented below its key.

    Returns:
        Columns to the dash, and to what stands behind it; None without a list.
    """
    key = 0
    for line in (line.rstrip() for line in text.split("\n")):
        if dash := _DASH.fullmatch(line):
            offset = max(len(dash["indent"]) - key, 0)
            return offset, offset + 1 + max(len(dash["space"]), 1)
        if alone := _KEY_ALONE.fullmatch(line):
            key = len(alone["indent"])
    return None


def without_entry(text: str, document: Document, position: int) -> str | None:
    """The text without an entry of ``peers``; comments above and below it stay.

    Args:
        text: the file.
        document: the same, parsed.
        position: of the entry, from 0.
    """
    found = _extents(text, document)
    if found is None:
        return None
    lines = text.split("\n")
    start, end = found[position]
    kept = [*lines[:start], *lines[end:]]
    if len(found) == 1:
        key = _key_line(document)
        match = _EMPTY.fullmatch(lines[key].rstrip("\r"))
        if match is None:
            return None
        kept[key] = f"peers: []{match['rest']}"
    entries = [each for at, each in enumerate(document.data[KEY]) if at != position]
    return _checked("\n".join(kept), document, entries)


def with_entry(text: str, document: Document, block: str, entry: object) -> str | None:
    """The text with one more entry, right behind the last one.

    Args:
        text: the file.
        document: the same, parsed.
        block: the entry as lines of a list, indented as it shall stand.
        entry: the same as data.
    """
    lines = text.split("\n")
    added = block.rstrip("\n").split("\n")
    present = document.data.get(KEY) or []
    if present:
        found = _extents(text, document)
        if found is None:
            return None
        at = found[-1][1]
    elif KEY in document.data:
        at = _key_line(document) + 1
        match = _EMPTY.fullmatch(lines[at - 1].rstrip("\r"))
        if match is None:
            return None
        lines[at - 1] = f"peers:{match['rest'].rstrip()}"
    else:
        at = len(lines) - (not lines[-1])
        added.insert(0, "peers:")
    if at == len(lines):
        added.append("")
    return _checked("\n".join([*lines[:at], *added, *lines[at:]]), document, [*present, entry])


def _key_line(document: Document) -> int:
    return int(document.root.lc.key(KEY)[0])


def _extents(text: str, document: Document) -> list[tuple[int, int]] | None:
    """First line and the line behind the last of each entry, comments and empty lines at its end not counted.

    None for what is no list of entries with a dash each.
    """
    entries = document.root[KEY]
    if not isinstance(entries, CommentedSeq) or entries.fa.flow_style():
        return None
    lines = text.split("\n")
    starts = []
    for position in range(len(entries)):
        line = int(entries.lc.item(position)[0])
        while line > 0 and not lines[line].lstrip().startswith("-"):
            line -= 1
        starts.append(line)
    behind = (int(document.root.lc.key(key)[0]) for key in document.root)
    last = min((line for line in behind if line > starts[-1]), default=len(lines))
    extents = []
    for start, following in zip(starts, [*starts[1:], last], strict=True):
        end = following
        while end > start + 1 and _NOTHING.fullmatch(lines[end - 1]):
            end -= 1
        extents.append((start, end))
    return extents


def _checked(text: str, document: Document, entries: list[Any]) -> str | None:
    """The text, if it means the old one with these peers; None otherwise."""
    try:
        data = parse_document(text, document.source).data
    except InvalidConfigError:
        return None
    return text if data == {**document.data, KEY: entries} else None
