"""Names by identity: under which one each peer's numbers are kept, and what it calls itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog

from ikeorch.core.allocate import Wanted
from ikeorch.store.database import Store, StoreError

_log = structlog.get_logger("ikeorch.store")


def load_names(store: Store) -> dict[str, str]:
    """The names by identity.

    Raises:
        StoreError: the database cannot be read.
    """
    return dict(store.read("SELECT identity, name FROM peer_name"))


class HeardNames:
    """What peers call themselves where it is not what we call them, by identity: a reboot forgets it of none.

    Args:
        store: the open database.

    Raises:
        StoreError: the database cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, str] = dict(store.read("SELECT identity, name FROM heard_name"))
        self.now: Mapping[str, str] = self._kept

    def keep(self, heard: Mapping[str, str]) -> None:
        """Write down what changed; a database that cannot be written is tried again at the next pass."""
        self.now = heard
        if heard == self._kept:
            return
        try:
            self._store.write(
                ("DELETE FROM heard_name", ()),
                *(("INSERT INTO heard_name VALUES (?, ?)", (identity, name)) for identity, name in heard.items()),
            )
        except StoreError as error:
            _log.warning("heard_name_not_kept", reason=str(error))
        else:
            self._kept = dict(heard)


def keep_numbers(store: Store, gone: Collection[Wanted], new: Mapping[Wanted, int], names: Mapping[str, str]) -> None:
    """Write down moved and new numbers together with the names that they belong to, all or nothing.

    Args:
        store: the open database.
        gone: what has its number no longer, for it moved.
        new: what has one now.
        names: all names by identity.

    Raises:
        StoreError: the database cannot be written, or a number was given to something else.
    """
    store.write(
        *(("DELETE FROM allocation WHERE kind = ? AND name = ?", (kind.value, name)) for kind, name in gone),
        *(
            ("INSERT INTO allocation VALUES (?, ?, ?)", (kind.value, name, number))
            for (kind, name), number in new.items()
        ),
        ("DELETE FROM peer_name", ()),
        *(("INSERT INTO peer_name VALUES (?, ?)", (name, identity)) for identity, name in names.items()),
    )
