"""The configuration file in the daemon's hands: read, edit, check, write, in that order, by one writer at a time."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ikeorch.config.loader import LoadedConfig, load_config, read_config
from ikeorch.errors import ConfigError


class ConfigFile:
    """The file of a running gateway.

    Args:
        path: where it lies.
        put_in_force: called with every configuration that was read or written, in that order.
    """

    def __init__(self, path: Path, put_in_force: Callable[[LoadedConfig], None]) -> None:
        self.path = path
        self._put_in_force = put_in_force
        self._lock = asyncio.Lock()

    async def reload(self) -> LoadedConfig:
        """Read and check the file, and put it in force.

        Raises:
            ConfigError: see `read_config`; the old one stays in force.
        """
        async with self._lock:
            loaded = await asyncio.to_thread(read_config, self.path)
            self._put_in_force(loaded)
            return loaded

    async def read(self) -> LoadedConfig:
        """Read and check the file without putting it in force.

        Raises:
            ConfigError: see `read_config`.
        """
        return await asyncio.to_thread(read_config, self.path)

    async def edit(self, change: Callable[[str], str]) -> tuple[LoadedConfig, bool]:
        """Change the file's text and put it in force; what would not be valid is never written.

        Args:
            change: old text in, new text out.

        Returns:
            The configuration after the change, and whether anything changed.

        Raises:
            ConfigError: the file, or the changed text, is refused; nothing is written.
        """
        async with self._lock:
            before = await asyncio.to_thread(read_config, self.path)
            text = await asyncio.to_thread(change, before.text)
            after = before
            if text != before.text:
                after = await asyncio.to_thread(load_config, text, str(self.path))
                await asyncio.to_thread(self._write, text)
            self._put_in_force(after)
            return after, text != before.text

    def _write(self, text: str) -> None:
        """Replace the file so that at any moment the old or the new one is there; mode and owner stay."""
        target = self.path.resolve()
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            status = target.stat()
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", where=str(self.path), hint="nothing was changed; check the disk"
            ) from None
        finally:
            temporary.unlink(missing_ok=True)
