"""Under which name each peer's numbers are kept, by its identity: a peer that is renamed keeps them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ikeorch.core.allocate import Wanted
from ikeorch.store.database import Store


def load_names(store: Store) -> dict[str, str]:
    """The names by identity.

    Raises:
        StoreError: the database cannot be read.
    """
    return dict(store.read("SELECT identity, name FROM peer_name"))


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
