"""The configuration file in the daemon's hands: read, edit, check, write, in that order, by one writer at a time."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from ikeorch.config.files import included_paths
from ikeorch.config.loader import LoadedConfig, load_config, read_config
from ikeorch.config.migrate import CURRENT
from ikeorch.config.place import Sources
from ikeorch.errors import ConfigError

Gate: TypeAlias = Callable[[LoadedConfig], Awaitable[None]]
"""Asked with a configuration before it is written or put in force; refuses by raising."""


KEPT = 20
"""Replaced versions of one file; of more the last one gives way."""


class ConfigFile:
    """The file of a running gateway, with those that it includes.

    Args:
        path: where the main file lies.
        put_in_force: called with every configuration that was read or written, in that order.
        in_force: the one that is in force from the start.
    """

    def __init__(
        self, path: Path, put_in_force: Callable[[LoadedConfig], None], in_force: LoadedConfig | None = None
    ) -> None:
        self.path = path
        self.in_force = in_force
        self._put_in_force = put_in_force
        self._lock = asyncio.Lock()

    def enforce(self, loaded: LoadedConfig) -> None:
        """Put in force what was read before, whatever stands in the files by now."""
        self._put_in_force(loaded)
        self.in_force = loaded

    async def read(self) -> LoadedConfig:
        """Read and check the file without putting it in force.

        Raises:
            ConfigError: see `read_config`.
        """
        return await asyncio.to_thread(read_config, self.path)

    async def edit(self, change: Callable[[Sources], Sources], gate: Gate | None = None) -> tuple[LoadedConfig, bool]:
        """Change the text of one file and put all in force; what would not be valid is never written.

        Args:
            change: the sources in, the same with at most one other text out (`ikeorch.config.place`).
            gate: asked before anything is written.

        Returns:
            The configuration after the change, and whether anything changed.

        Raises:
            ConfigError: a file, or the changed text, is refused; nothing is written.
        """
        async with self._lock:
            before = await asyncio.to_thread(read_config, self.path)
            sources = await asyncio.to_thread(change, before.sources)
            changed = [new for new, old in zip(sources, before.sources, strict=True) if new != old]
            after = before
            if changed:
                (source,) = changed
                self._require_current(before)
                main, *included = sources
                after = await asyncio.to_thread(load_config, main.text, main.name, included)
            if gate is not None:
                await gate(after)
            if changed:
                await asyncio.to_thread(self._write, Path(source.name), source.text)
            self.enforce(after)
            return after, bool(changed)

    async def restore(self, wanted: Sources, gate: Gate | None = None) -> LoadedConfig:
        """Bring files back and put them in force; what stands there now need not be valid.

        They are in force before they are written: a full disk must not keep the gateway from going back. What is
        replaced is kept under a hidden name, which no pattern matches: it may hold an edit that was never applied. A
        file that would be included and was not then is moved there.

        Args:
            wanted: all files of a configuration, the main one first.
            gate: asked before anything is written.

        Raises:
            ConfigError: they are no longer valid; or they are in force, but cannot be written.
        """
        async with self._lock:
            main, *included = wanted
            after = await asyncio.to_thread(load_config, main.text, main.name, included)
            if gate is not None:
                await gate(after)
            self.enforce(after)
            for source in (*included, main):
                await asyncio.to_thread(self._replace, Path(source.name), source.text)
            await asyncio.to_thread(self._move_others_aside, wanted)
            return after

    def _replace(self, path: Path, text: str) -> None:
        """Write a file and keep the one that was there; what is no text is kept as bytes."""
        try:
            before = path.read_bytes() if path.exists() else None
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
        if before == text.encode():
            return
        if before is not None and (kept := _aside(path, before)) is not None:
            self._write(kept, before.decode(errors="replace"))
        self._write(path, text)

    def _move_others_aside(self, wanted: Sources) -> None:
        known = {Path(source.name) for source in wanted}
        for path in included_paths(wanted[0].text, self.path):
            if path not in known:
                try:
                    path.rename(_aside(path) or path.with_name(f".{path.name}.before-rollback"))
                except OSError as error:
                    hint = "take it out of what is included"
                    raise ConfigError(f"cannot be moved aside: {error.strerror}", where=str(path), hint=hint) from None

    def _require_current(self, loaded: LoadedConfig) -> None:
        """A command writes the current version; in a file of an older one its words could mean something else."""
        if loaded.tree.version != CURRENT:
            raise ConfigError(
                f"is written for schema_version {loaded.tree.version}, commands write {CURRENT}",
                where=str(self.path),
                hint="replace it by the output of `ikeorch config show --effective` first; nothing was changed",
            )

    def _write(self, path: Path, text: str) -> None:
        """Replace the file so that at any moment the old or the new one is there; mode and owner stay."""
        target = path.resolve()
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            status = target.stat() if target.exists() else None
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                if status is not None:
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                    os.fchmod(file.fileno(), status.st_mode & 0o7777)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", where=str(path), hint="nothing was changed; check the disk"
            ) from None
        finally:
            temporary.unlink(missing_ok=True)


def _aside(path: Path, text: bytes | None = None) -> Path | None:
    """Where a file is kept that a rollback replaces: a free name; None where the same text is kept already."""
    names = [path.with_name(f".{path.name}.before-rollback{number}") for number in ("", *range(2, KEPT + 1))]
    for name in names:
        if not name.exists():
            return name
        if text is not None and name.is_file() and name.read_bytes() == text:
            return None
    return names[-1]
