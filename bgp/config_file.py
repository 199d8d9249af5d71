"""The one writer of ExaBGP's configuration file: checked by ExaBGP itself first, then put in place at once.

A file that ExaBGP cannot read must never be there when it reloads: it would go on with the old one, but refuse every
later file as well until it is restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bgp.errors import ConfigurationRefusedError
from bgp.grammar import clean_text

PAUSE = 5.0
"""Seconds until a file that could not be put in place is tried again."""
WORDS_LIMIT = 800
"""Characters of what the check said that are passed on, from its end."""
DEADLINE = 30.0
"""Seconds for ExaBGP's own check; it takes about half of one."""


class ConfigFile:
    """The file, what should stand in it, and whether ExaBGP has read it.

    Args:
        path: the file.
        validate: command line of ExaBGP's check, to which the file's name is added; empty for none.
        environment: of that command; None for this process's.
        on_change: told in a few words about problems and their end.
        wake: set when the file was put in place.
    """

    def __init__(
        self,
        path: Path,
        *,
        validate: Sequence[str],
        environment: Mapping[str, str] | None,
        on_change: Callable[[str], None],
        wake: asyncio.Event,
    ) -> None:
        self._path = path
        self._validate = validate
        self._environment = environment
        self._on_change = on_change
        self._wake = wake
        self._wanted: str | None = None
        self._standing: str | None = None
        self._changed = asyncio.Event()
        self._file_problem = ""
        self._reload_problem = ""
        self.reload_due = False
        """ExaBGP has to read the file once more."""

    @property
    def in_place(self) -> bool:
        """The file holds what it should."""
        return self._wanted is not None and self._standing == self._wanted

    @property
    def problems(self) -> tuple[str, ...]:
        """Why ExaBGP does not run with what it should."""
        return tuple(problem for problem in (self._file_problem, self._reload_problem) if problem)

    def want(self, text: str) -> None:
        """Set what should stand in the file."""
        if text != self._wanted:
            self._wanted = text
            self._changed.set()

    def note(self, *, file_problem: str | None = None, reload_problem: str | None = None) -> None:
        """Note a problem, "" for its end."""
        before = self.problems
        self._file_problem = self._file_problem if file_problem is None else file_problem
        self._reload_problem = self._reload_problem if reload_problem is None else reload_problem
        if before != self.problems:
            self._on_change("; ".join(self.problems) or "the configuration of ExaBGP is in force")

    async def keep(self) -> None:
        """Put the file in place whenever what should stand in it changes, for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE if self._file_problem else None):
                    await self._changed.wait()
            self._changed.clear()
            text = self._wanted
            assert text is not None
            try:
                changed = await put_configuration(
                    self._path, text, validate=self._validate, environment=self._environment
                )
            except ConfigurationRefusedError as error:
                self.note(file_problem=str(error))
                continue
            self._standing = text
            self.reload_due |= changed
            self.note(file_problem="")
            self._wake.set()


async def put_configuration(
    path: Path, text: str, *, validate: Sequence[str], environment: Mapping[str, str] | None = None
) -> bool:
    """Have the file hold this text.

    Args:
        path: the file; readable by all, since there is no secret in it.
        text: the whole of it.
        validate: command line of ExaBGP's check, to which the file's name is added; empty for none.
        environment: of that command.

    Returns:
        Whether the file was changed.

    Raises:
        ConfigurationRefusedError: ExaBGP would not take it, cannot be asked, or the file cannot be written.
    """
    candidate = path.with_name(f".{path.name}.new")
    try:
        if await asyncio.to_thread(_read, path) == text:
            return False
        await asyncio.to_thread(_write, candidate, text)
        if validate:
            await _check((*validate, str(candidate)), environment, path)
        await asyncio.to_thread(_replace, candidate, path)
    except OSError as error:
        what = f"the configuration of ExaBGP cannot be written: {error.strerror}"
        raise ConfigurationRefusedError(what, where=str(path), hint="check disk and permissions") from None
    finally:
        candidate.unlink(missing_ok=True)
    return True


async def _check(command: Sequence[str], environment: Mapping[str, str] | None, path: Path) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=None if environment is None else dict(environment),
        )
    except OSError as error:
        what = f"{command[0]} cannot be run to check the configuration: {error.strerror}"
        raise ConfigurationRefusedError(what, where=str(path), hint="install exabgp 5") from None
    try:
        async with asyncio.timeout(DEADLINE):
            _, said = await process.communicate()
    except TimeoutError:
        raise ConfigurationRefusedError("ExaBGP's check of the configuration does not end", where=str(path)) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        words = clean_text(said.decode("ascii", errors="replace")[-WORDS_LIMIT:], WORDS_LIMIT)
        raise ConfigurationRefusedError(f"ExaBGP would not take the configuration: {words}", where=str(path))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace(candidate: Path, path: Path) -> None:
    candidate.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
