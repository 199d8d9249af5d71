"""The store: numbers survive, are never changed, and its faults are clear."""

from __future__ import annotations

import resource
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ikeorch.core.allocate import Kind
from ikeorch.store.database import Store, StoreError


def test_numbers_survive_a_restart(tmp_path: Path) -> None:
    """What was given is there when the file is opened again."""
    store = Store.open(tmp_path / "st" / "x.db")
    store.add_numbers({(Kind.IF_ID, "gw-b/0"): 1, (Kind.TABLE, "isp1"): 7301})
    store.close()
    again = Store.open(tmp_path / "st" / "x.db")
    assert again.numbers() == {(Kind.IF_ID, "gw-b/0"): 1, (Kind.TABLE, "isp1"): 7301}
    again.close()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """Folder 0700, file 0600."""
    Store.open(tmp_path / "st" / "x.db").close()
    assert stat.S_IMODE((tmp_path / "st").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "st" / "x.db").stat().st_mode) == 0o600


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    """All of a batch or none: the second write fails whole."""
    store = Store.open(tmp_path / "x.db")
    store.add_numbers({(Kind.IF_ID, "a"): 1})
    with pytest.raises(StoreError):
        store.add_numbers({(Kind.IF_ID, "c"): 3, (Kind.IF_ID, "b"): 1})
    assert store.numbers() == {(Kind.IF_ID, "a"): 1}
    store.close()


def test_a_newer_schema_is_not_touched(tmp_path: Path) -> None:
    """A downgrade says so instead of guessing."""
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer version"):
        Store.open(tmp_path / "x.db")


def test_rubbish_is_no_database(tmp_path: Path) -> None:
    """The file is named; it is not overwritten."""
    (tmp_path / "x.db").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreError, match=r"x\.db: cannot be opened"):
        Store.open(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes().startswith(b"rubbish")


def test_a_full_disk_lets_it_be_read_and_written_later(tmp_path: Path) -> None:
    """After a clean close, no byte can be written: the numbers are there, new ones are refused until there is room."""
    path = tmp_path / "x.db"
    store = Store.open(path)
    store.add_numbers({(Kind.IF_ID, "a"): 1})
    store.close()
    with no_room():
        store = Store.open(path)
        assert store.numbers() == {(Kind.IF_ID, "a"): 1}
        with pytest.raises(StoreError, match="cannot be"):
            store.add_numbers({(Kind.IF_ID, "b"): 2})
        assert store.numbers() == {(Kind.IF_ID, "a"): 1}
    store.add_numbers({(Kind.IF_ID, "b"): 2})
    assert store.numbers() == {(Kind.IF_ID, "a"): 1, (Kind.IF_ID, "b"): 2}
    store.close()


def test_a_full_disk_without_a_database_is_an_error(tmp_path: Path) -> None:
    """There is nothing to go on with."""
    with no_room(), pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path / "x.db")


@contextmanager
def no_room() -> Iterator[None]:
    """No file of this process can grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
