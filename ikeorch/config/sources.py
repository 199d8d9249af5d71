"""A configuration may stand in several files: the main one, and those that its ``include`` names.

Here they become one tree, and every value still knows its file and line. An included file may add entries to ``peers``
and ``suites``; what is said twice is refused, never overridden. Reading the files is `ikeorch.config.files`' work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ikeorch.config.document import Document, parse_document
from ikeorch.config.migrate import VersionError, migrate
from ikeorch.config.problems import InvalidConfigError, Location, Problem, path_text

INCLUDABLE = ("peers", "suites")
PLACE = "{place}"


@dataclass(frozen=True, slots=True)
class Source:
    """One file's text.

    Attributes:
        name: its path, as messages show it.
        text: what stands in it.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All files as one.

    Attributes:
        documents: the main file first, then the included ones in the order of their names.
        data: plain values of the current schema version, as if all stood in one file.
        version: the schema version that the main file was written for.
        peers: for each entry of ``peers``: its document and its position there.
        suites: for each suite of an included file: its document.
    """

    documents: tuple[Document, ...]
    data: dict[str, Any]
    version: int
    peers: tuple[tuple[int, int], ...]
    suites: dict[str, int]

    def find(self, location: Location) -> tuple[Document, Location]:
        """The file of a location, and the location in it."""
        match location:
            case ("peers", int(position), *rest) if position < len(self.peers):
                at, local = self.peers[position]
                return self.documents[at], ("peers", local, *rest)
            case ("suites", str(name), *_):
                return self.documents[self.suites.get(name, 0)], location
            case _:
                return self.documents[0], location

    def problem(self, location: Location, reason: str, hint: str = "", other: Location | None = None) -> Problem:
        """A problem at a location; `PLACE` in the reason becomes the path (and file) of the other location."""
        document, local = self.find(location)
        if other is not None:
            reason = reason.replace(PLACE, self._place(other))
        return document.problem(local, reason, hint)

    def _place(self, location: Location) -> str:
        document, local = self.find(location)
        line, _ = document.place(local)
        return f"{path_text(local)} ({document.source}:{line})" if len(self.documents) > 1 else path_text(local)


def merge_sources(main: Source, included: Sequence[Source] = ()) -> Tree:
    """Parse all files and join them.

    Raises:
        InvalidConfigError: one of them is no YAML, holds what an included file may not, or says what another one
            says; with all problems of all files.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    for source, optional in ((main, False), *((each, True) for each in included)):
        try:
            documents.append(parse_document(source.text, source.name, may_be_empty=optional))
        except InvalidConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidConfigError(main.name, problems)
    problems = [problem for document in documents[1:] for problem in _not_includable(document)]
    data = dict(documents[0].data)
    peers, suites, doubles = _join(documents, data)
    problems.extend(doubles)
    try:
        data, version = migrate(data)
    except VersionError as error:
        reason, _, hint = str(error).partition("; ")
        problems.append(documents[0].problem(("schema_version",), reason, hint))
        version = -1
    if problems:
        raise InvalidConfigError(main.name, problems)
    return Tree(documents=tuple(documents), data=data, version=version, peers=peers, suites=suites)


def _not_includable(document: Document) -> Iterator[Problem]:
    for key, value in document.data.items():
        if key == "include":
            yield document.problem((key,), "an included file includes no others", "name all files in the main one")
        elif key not in INCLUDABLE:
            hint = f"an included file holds {' and '.join(INCLUDABLE)} and nothing else"
            yield document.problem((key,), "belongs into the main file", hint)
        elif key == "peers" and not isinstance(value, list | None):
            yield document.problem((key,), "is no list of peers", "begin each peer with '- name:'")
        elif key == "suites" and not isinstance(value, dict | None):
            yield document.problem((key,), "is no map of suites", "write one as 'NAME: CIPHER-PRF-GROUP'")


def _join(
    documents: Sequence[Document], data: dict[str, Any]
) -> tuple[tuple[tuple[int, int], ...], dict[str, int], list[Problem]]:
    """Add the included files' entries to the data; what is no list or map stays for the check of the shape."""
    origins: list[tuple[int, int]] = []
    suites: dict[str, int] = {}
    doubles: list[Problem] = []
    said = {key for document in documents for key in document.data}
    own_peers, own_suites = data.get("peers", []), data.get("suites", {})
    if "peers" in said and isinstance(own_peers, list):
        data["peers"] = joined = list(own_peers)
        origins.extend((0, position) for position in range(len(own_peers)))
        for at, document in enumerate(documents[1:], 1):
            more = document.data.get("peers")
            if isinstance(more, list):
                joined.extend(more)
                origins.extend((at, position) for position in range(len(more)))
    if "suites" in said and isinstance(own_suites, dict):
        data["suites"] = known = dict(own_suites)
        first = dict.fromkeys(own_suites, 0)
        for at, document in enumerate(documents[1:], 1):
            more = document.data.get("suites")
            for name, value in more.items() if isinstance(more, dict) else ():
                if name in first:
                    line, _ = documents[first[name]].place(("suites", name))
                    reason = f"the suite {name!r} stands already at {documents[first[name]].source}:{line}"
                    doubles.append(document.problem(("suites", name), reason, "name each suite once"))
                else:
                    first[name] = suites[name] = at
                    known[name] = value
    return tuple(origins), suites, doubles
