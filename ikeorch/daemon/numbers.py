"""The numbers of the running gateway: given once, and written to the store as soon as it takes them.

A store that cannot be written (a full disk) costs no tunnel: its numbers are used all the same and written at a later
pass. Only one daemon gives numbers, so what it read at its start stays true. A peer that has another name now keeps its
numbers under that (`ikeorch.core.rename`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ikeorch.core.allocate import Allocations, Wanted
from ikeorch.core.rename import give_numbers, name_changes, peer_names
from ikeorch.core.spec import GatewaySpec
from ikeorch.store.database import Store, StoreError
from ikeorch.store.names import keep_numbers, load_names


@dataclass(frozen=True, slots=True)
class _Given:
    """All numbers, and the peers' names that they belong to by identity."""

    numbers: dict[Wanted, int]
    names: dict[str, str]


class Numbers:
    """All numbers, kept or still to be kept.

    Args:
        store: where they are kept.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = _Given(store.numbers(), load_names(store))
        self._given = self._kept
        self.problem = ""
        """Why the last numbers are not in the store yet, "" when all are."""

    def allocate(self, spec: GatewaySpec) -> Allocations:
        """All numbers that the configuration needs, moving, giving and keeping them where that is due."""
        self._given = _Given(*give_numbers(self._given.numbers, self._given.names, spec))
        self._keep()
        return Allocations(self._given.numbers)

    def preview(self, spec: GatewaySpec) -> Allocations:
        """The same numbers without giving them."""
        return Allocations(give_numbers(self._given.numbers, self._given.names, spec)[0])

    def changes(self, spec: GatewaySpec) -> dict[str, str]:
        """Which peers' names have changed since numbers were given last: the new ones by the old ones."""
        return name_changes(self._given.names, peer_names(spec))

    def given(self) -> dict[Wanted, int]:
        """All numbers given so far."""
        return self._given.numbers

    def names(self) -> dict[str, str]:
        """The peers' names that these belong to, by identity."""
        return self._given.names

    def _keep(self) -> None:
        self.problem = ""
        if self._given == self._kept:
            return
        before, after = self._kept.numbers, self._given.numbers
        gone = [wanted for wanted, number in before.items() if after.get(wanted) != number]
        new = {wanted: number for wanted, number in after.items() if before.get(wanted) != number}
        try:
            keep_numbers(self._store, gone, new, self._given.names)
        except StoreError as error:
            self.problem = str(error)
        else:
            self._kept = self._given
