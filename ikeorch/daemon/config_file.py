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
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = asyncio.Lock()

    async def read(self) -> LoadedConfig:
        """Read and check the file.

        Raises:
            ConfigError: see `read_config`.
        """
        return await asyncio.to_thread(read_config, self.path)

    async def edit(self, change: Callable[[str], str]) -> tuple[LoadedConfig, bool]:
        """Change the file's text; what would not be valid is never written.

        Args:
            change: old text in, new text out.

        Returns:
            The configuration after the change, and whether anything changed.

        Raises:
            ConfigError: the file, or the changed text, is refused; nothing is written.
        """
        async with self._lock:
            before = await self.read()
            text = change(before.text)
            if text == before.text:
                return before, False
            after = load_config(text, str(self.path))
            await asyncio.to_thread(self._write, text)
            return after, True

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
