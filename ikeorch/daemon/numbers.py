"""The numbers of the running gateway: given once, and written to the store as soon as it takes them.

A store that cannot be written (a full disk) costs no tunnel: its numbers are used all the same and written at a later
pass. Only one daemon gives numbers, so what it read at its start stays true.
"""

from __future__ import annotations

from ikeorch.core.allocate import Allocations, Wanted, allocate_missing, wanted_numbers
from ikeorch.core.planner import preview_numbers
from ikeorch.core.spec import GatewaySpec
from ikeorch.store.database import Store, StoreError


class Numbers:
    """All numbers, kept or still to be kept.

    Args:
        store: where they are kept.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = store.numbers()
        self._unkept: dict[Wanted, int] = {}
        self.problem = ""
        """Why the last numbers are not in the store yet, "" when all are."""

    def allocate(self, spec: GatewaySpec) -> Allocations:
        """All numbers that the configuration needs, giving and keeping new ones where some are missing."""
        self._unkept |= allocate_missing(self.given(), wanted_numbers(spec))
        self._keep()
        return Allocations(self.given())

    def preview(self, spec: GatewaySpec) -> Allocations:
        """The same numbers without giving them."""
        return preview_numbers(self.given(), spec)

    def given(self) -> dict[Wanted, int]:
        """All numbers given so far."""
        return {**self._kept, **self._unkept}

    def _keep(self) -> None:
        self.problem = ""
        if not self._unkept:
            return
        try:
            self._store.add_numbers(self._unkept)
        except StoreError as error:
            self.problem = str(error)
        else:
            self._kept |= self._unkept
            self._unkept = {}
