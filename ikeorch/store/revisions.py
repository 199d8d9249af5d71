"""Every configuration that was put in force, in the gateway's database."""

from __future__ import annotations

from typing import Any

from ikeorch.core.revision import Confirmation, Deadline, Outcome, Revision, Trial
from ikeorch.core.units import Seconds
from ikeorch.store.database import Store, StoreError

_SELECT = """
SELECT r.number, r.at, r.uid, r.what, r.text, o.outcome, o.reason
FROM revision r JOIN outcome o ON o.rowid = (SELECT max(rowid) FROM outcome WHERE revision = r.number)
"""
_OUTCOME = "INSERT INTO outcome VALUES (?, ?, ?, ?)"


class Revisions:
    """The revisions of one gateway, oldest first.

    Args:
        store: the open database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[Revision]:
        """All of them.

        Raises:
            StoreError: the database cannot be read.
        """
        return [_revision(row) for row in self._store.read(_SELECT + "ORDER BY r.number")]

    def last(self) -> Revision | None:
        """The newest one.

        Raises:
            StoreError: the database cannot be read.
        """
        rows = self._store.read(_SELECT + "ORDER BY r.number DESC LIMIT 1")
        return _revision(rows[0]) if rows else None

    def get(self, number: int) -> Revision | None:
        """One of them.

        Raises:
            StoreError: the database cannot be read.
        """
        rows = self._store.read(_SELECT + "WHERE r.number = ?", number)
        return _revision(rows[0]) if rows else None

    def add(
        self,
        *,
        at: Seconds,
        uid: int,
        what: str,
        text: str,
        outcome: Outcome,
        confirm_by: Deadline | None = None,
        prove_by: Deadline | None = None,
        patient: bool = False,
    ) -> int:
        """Add the next one; the one before it is replaced by it.

        Args:
            at: Unix seconds.
            uid: of who did it, -1 for the daemon.
            what: the command.
            text: the whole configuration.
            outcome: what it is now.
            confirm_by: until when somebody must confirm it.
            prove_by: until when packets must prove it. For both: where the one before was not proven yet, what comes
                back is what would have come back then.
            patient: see `Trial`.

        Returns:
            Its number.

        Raises:
            StoreError: the database cannot be written.
        """
        last, trial = self.last(), self.trial()
        number = (last.number if last else 0) + 1
        previous = trial.previous if trial else last.number if last else number
        statements: list[tuple[str, tuple[int | float | str, ...]]] = [
            ("INSERT INTO revision VALUES (?, ?, ?, ?, ?)", (number, at, uid, what, text)),
            (_OUTCOME, (number, at, outcome.value, "")),
            ("DELETE FROM trial", ()),
        ]
        if last is not None and last.outcome in {Outcome.IN_FORCE, Outcome.CONFIRMED}:
            statements.append((_OUTCOME, (last.number, at, Outcome.REPLACED.value, f"by revision {number}")))
        if confirm_by is not None:
            insert = "INSERT INTO confirmation VALUES (?, ?, ?, ?, ?)"
            statements.append((insert, (number, previous, *_deadline_values(confirm_by))))
        if prove_by is not None:
            insert = "INSERT INTO trial VALUES (?, ?, ?, ?, ?, ?)"
            statements.append((insert, (number, previous, *_deadline_values(prove_by), int(patient))))
        self._store.write(*statements)
        return number

    def awaited(self) -> Confirmation | None:
        """What waits for a confirmation.

        Raises:
            StoreError: the database cannot be read.
        """
        rows = self._store.read("SELECT revision, previous, deadline, boot, boot_deadline FROM confirmation")
        if not rows:
            return None
        revision, previous, *deadline = rows[-1]
        return Confirmation(revision=revision, previous=previous, deadline=_deadline(*deadline))

    def trial(self) -> Trial | None:
        """What packets have to prove.

        Raises:
            StoreError: the database cannot be read.
        """
        rows = self._store.read("SELECT revision, previous, patient, deadline, boot, boot_deadline FROM trial")
        if not rows:
            return None
        revision, previous, patient, *deadline = rows[-1]
        return Trial(revision=revision, previous=previous, patient=bool(patient), deadline=_deadline(*deadline))

    def end_trial(self) -> None:
        """Packets have proven it.

        Raises:
            StoreError: the database cannot be written.
        """
        self._store.write(("DELETE FROM trial", ()))

    def close(self, number: int, outcome: Outcome, reason: str, *, at: Seconds) -> None:
        """A revision waits for no confirmation any longer; this is what became of it.

        Raises:
            StoreError: the database cannot be written.
        """
        statements: list[tuple[str, tuple[int | float | str, ...]]] = [
            (_OUTCOME, (number, at, outcome.value, reason)),
            ("DELETE FROM confirmation WHERE revision = ?", (number,)),
        ]
        if outcome is Outcome.ROLLED_BACK:
            statements.append(("DELETE FROM trial WHERE revision = ?", (number,)))
        self._store.write(*statements)


def _deadline(at: float, boot: str, boot_at: float) -> Deadline:
    return Deadline(at=Seconds(at), boot=boot, boot_at=Seconds(boot_at))


def _deadline_values(deadline: Deadline) -> tuple[float, str, float]:
    return deadline.at, deadline.boot, deadline.boot_at


def _revision(row: tuple[Any, ...]) -> Revision:
    number, at, uid, what, text, outcome, reason = row
    try:
        known = Outcome(outcome)
    except ValueError:
        raise StoreError(f"revision {number} has an unknown outcome {outcome!r}") from None
    return Revision(number=number, at=Seconds(at), uid=uid, what=what, text=text, outcome=known, reason=reason)
