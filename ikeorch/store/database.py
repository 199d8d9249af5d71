"""The gateway's database: one SQLite file, write-ahead log, readable by its owner only.

Numbers are given once and kept (see `ikeorch.core.allocate`). A row is never changed or deleted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from ikeorch.core.allocate import Kind, Wanted
from ikeorch.errors import IkeorchError

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE allocation (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (kind, name),
    UNIQUE (kind, number)
) STRICT, WITHOUT ROWID;
"""


class StoreError(IkeorchError):
    """The database cannot be opened, read or written."""

    code = "store-failed"


class Store:
    """The open database; use `open` to get one.

    Args:
        connection: an open connection with the current schema.
        path: the file, for messages.
        writable: whether it was opened for writing; if not, that is tried anew before each write.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, *, writable: bool = True) -> None:
        self._connection = connection
        self._path = path
        self._writable = writable

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the database, creating folder (0700), file (0600) and schema where they are missing.

        On a full disk SQLite cannot open even what is there; then it is read, and writing is tried again later.

        Raises:
            StoreError: the operating system or SQLite refuses, or a newer version wrote it.
        """
        try:
            return cls(_open_writable(path), path)
        except StoreError:
            connection = _open_readable(path)
            if connection is None:
                raise
            return cls(connection, path, writable=False)

    def numbers(self) -> dict[Wanted, int]:
        """All numbers given so far.

        Raises:
            StoreError: the database cannot be read.
        """
        try:
            rows = self._connection.execute("SELECT kind, name, number FROM allocation").fetchall()
            return {(Kind(kind), name): number for kind, name, number in rows}
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"cannot be read: {error}", where=str(self._path)) from None

    def add_numbers(self, numbers: Mapping[Wanted, int]) -> None:
        """Keep new numbers, all or none.

        Raises:
            StoreError: the database cannot be written, or one was given before.
        """
        if not self._writable:
            connection = _open_writable(self._path)
            self._connection.close()
            self._connection, self._writable = connection, True
        rows = [(kind.value, name, number) for (kind, name), number in numbers.items()]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT INTO allocation VALUES (?, ?, ?)", rows)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"cannot be written: {error}", where=str(self._path), hint="is the disk full?") from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _open_writable(path: Path) -> sqlite3.Connection:
    """The database for reading and writing, with the current schema.

    Raises:
        StoreError: see `Store.open`.
    """
    connection = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        version = _version(connection)
        if version == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    except (OSError, sqlite3.Error) as error:
        if connection is not None:
            connection.close()
        raise StoreError(
            f"cannot be opened: {error}",
            where=str(path),
            hint="check disk and permissions; a damaged file may be moved away, numbers are then given anew",
        ) from None
    if version > SCHEMA_VERSION:
        connection.close()
        raise StoreError(f"was written by a newer version ({version})", where=str(path), hint="upgrade ikeorch")
    return connection


def _open_readable(path: Path) -> sqlite3.Connection | None:
    """The database as a file that nobody changes; None where that would not be the whole truth, or is impossible."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
        if _version(connection) == SCHEMA_VERSION:
            return connection
        connection.close()
    except sqlite3.Error:
        pass
    return None


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
