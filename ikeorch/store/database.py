"""The gateway's database: one SQLite file, write-ahead log, readable by its owner only.

Numbers are given once and kept (see `ikeorch.core.allocate`), under another name where their peer has another one.
Revisions and what became of them are added to (`ikeorch.store.revisions`), never changed or deleted. Tables are only
ever added, so that an older version still reads what it knows.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
_ADDED = """
CREATE TABLE IF NOT EXISTS revision (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    uid INTEGER NOT NULL,
    what TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS outcome (
    revision INTEGER NOT NULL REFERENCES revision (number),
    at REAL NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS confirmation (
    revision INTEGER PRIMARY KEY REFERENCES revision (number),
    previous INTEGER NOT NULL REFERENCES revision (number),
    deadline REAL NOT NULL,
    boot TEXT NOT NULL,
    boot_deadline REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS trial (
    revision INTEGER PRIMARY KEY REFERENCES revision (number),
    previous INTEGER NOT NULL REFERENCES revision (number),
    deadline REAL NOT NULL,
    boot TEXT NOT NULL,
    boot_deadline REAL NOT NULL,
    patient INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS made_with (
    tunnel TEXT PRIMARY KEY,
    digest TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS peer_name (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE IF NOT EXISTS heard_name (
    identity TEXT PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS agreed_suite (
    tunnel TEXT PRIMARY KEY,
    suite TEXT NOT NULL
) STRICT;
"""
Value = int | float | str
"""What a row holds."""


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
        rows = self.read("SELECT kind, name, number FROM allocation")
        try:
            return {(Kind(kind), name): number for kind, name, number in rows}
        except ValueError as error:
            raise StoreError(f"cannot be read: {error}", where=str(self._path)) from None

    def add_numbers(self, numbers: Mapping[Wanted, int]) -> None:
        """Keep new numbers, all or none.

        Raises:
            StoreError: the database cannot be written, or one was given before.
        """
        insert = "INSERT INTO allocation VALUES (?, ?, ?)"
        self.write(*((insert, (kind.value, name, number)) for (kind, name), number in numbers.items()))

    def read(self, query: str, *values: Value) -> list[tuple[Any, ...]]:
        """The rows of a query.

        Raises:
            StoreError: the database cannot be read.
        """
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot be read: {error}", where=str(self._path)) from None

    def write(self, *statements: tuple[str, tuple[Value, ...]]) -> None:
        """Carry out statements, all or none.

        Raises:
            StoreError: the database cannot be written, or a row breaks its rules.
        """
        if not self._writable:
            connection = _open_writable(self._path)
            self._connection.close()
            self._connection, self._writable = connection, True
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in statements:
                    self._connection.execute(statement, values)
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
        if version <= SCHEMA_VERSION:
            connection.executescript(_ADDED)
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
