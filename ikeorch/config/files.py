"""Read the files of a configuration: the main one, and what its ``include`` names, with care for who may write it.

An included file is taken as the main one is: it decides which tunnels exist. So one that group or others may write, or
that lies in a folder where they may put files, is refused.
"""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path

from ikeorch.config.document import MAX_BYTES, Document, parse_document, place_of
from ikeorch.config.problems import InvalidConfigError, Location, Problem
from ikeorch.config.schema import MAX_INCLUDES
from ikeorch.config.sources import Source
from ikeorch.config.values import check_pattern
from ikeorch.errors import ConfigError, NotPermittedError

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def read_sources(path: Path) -> tuple[Source, ...]:
    """Read the main file and all that it includes.

    Returns:
        The main file first, then the included ones in the order of their names.

    Raises:
        ConfigError: the main file is not there or no text; InvalidConfigError for what it includes.
        NotPermittedError: this user may not read the main file.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError("no such file", where=str(path), hint="name it with --config, or create it") from None
    except PermissionError:
        raise NotPermittedError("may not be read", where=str(path), hint="try as root") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    main = Source(str(path), _decode(raw, str(path)))
    document = parse_document(main.text, main.name)
    if "include" not in document.data:
        return (main,)
    return (main, *_read_included(document, path.parent))


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line, column = place_of(raw[: error.start].decode(errors="replace"), error.start)
        problem = Problem(
            location=(),
            source=name,
            line=line,
            column=column,
            reason=f"is not UTF-8 text at byte {error.start}",
            hint="save the file as UTF-8",
        )
        raise InvalidConfigError(name, [problem]) from None


def included_paths(text: str, path: Path) -> tuple[Path, ...]:
    """The files that a main file includes, read or not.

    Args:
        text: of the main file.
        path: where it lies.

    Raises:
        InvalidConfigError: the text is no YAML.
    """
    found, _ = _expand(parse_document(text, str(path)), path.parent)
    return tuple(path.parent / name for name in sorted(found))


def _expand(main: Document, folder: Path) -> tuple[dict[str, Location], list[Problem]]:
    """Every file once with the first pattern that matches it, and what is wrong with the patterns."""
    found: dict[str, Location] = {}
    problems: list[Problem] = []
    for location, pattern in _patterns(main.data.get("include", [])):
        names = sorted(glob.glob(pattern, root_dir=folder))  # noqa: PTH207 - Path.glob takes hidden files too
        if not names and not glob.has_magic(pattern):
            problems.append(main.problem(location, f"there is no file {pattern!r}", f"make it in {folder}"))
        for name in names:
            found.setdefault(name, location)
    return found, problems


def _read_included(main: Document, folder: Path) -> tuple[Source, ...]:
    found, problems = _expand(main, folder)
    if len(found) > MAX_INCLUDES:
        reason = f"{len(found)} files are included, at most {MAX_INCLUDES} are read"
        problems.append(main.problem(("include",), reason, "join some of them"))
        raise InvalidConfigError(main.source, problems)
    sources: list[Source] = []
    room = MAX_BYTES
    for name, location in sorted(found.items()):
        try:
            raw = _read_guarded(folder / name, room)
            room -= len(raw)
            sources.append(Source(str(folder / name), _decode(raw, str(folder / name))))
        except _RefusedFileError as error:
            problems.append(main.problem(location, f"{name}: {error}", error.hint))
        except InvalidConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidConfigError(main.source, problems)
    return tuple(sources)


def _patterns(include: object) -> list[tuple[Location, str]]:
    """The patterns that are well formed; the check of the shape says what is wrong with the others."""
    patterns: list[tuple[Location, str]] = []
    for at, value in enumerate(include if isinstance(include, list) else [include]):
        location: Location = ("include", at) if isinstance(include, list) else ("include",)
        try:
            patterns.append((location, check_pattern(value)))
        except ValueError:
            continue
    return patterns[:MAX_INCLUDES]


class _RefusedFileError(ValueError):
    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _read_guarded(path: Path, room: int) -> bytes:
    """Read a file that nobody else may change; what is checked is what was opened."""
    try:
        folder = path.resolve().parent.stat()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _RefusedFileError("is no plain file", "let the pattern match configuration files alone")
            for mode, what in ((status.st_mode, "the file"), (folder.st_mode, "its folder")):
                if mode & _OTHERS_MAY_WRITE:
                    raise _RefusedFileError(f"group or others may write {what}", f"take that away: chmod go-w {what}")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                raw = file.read(room + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _RefusedFileError(f"cannot be read: {error.strerror}", "check the file and its permissions") from None
    if len(raw) > room:
        raise _RefusedFileError(f"the included files are larger than {MAX_BYTES} bytes", "take some away")
    return raw
