"""Revisions: every configuration that was put in force, by whom, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.units import Seconds


class Outcome(Enum):
    """What became of a revision; the last one counts."""

    IN_FORCE = "in force"
    AWAITING = "awaiting confirmation"
    CONFIRMED = "confirmed"
    REPLACED = "replaced"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One of them.

    Attributes:
        number: from 1, in order.
        at: Unix seconds.
        uid: user id of who put it in force, as the kernel says; -1 for the daemon itself.
        what: the command, in a few words.
        text: the whole configuration.
        outcome: what became of it.
        reason: of the outcome, "" when there is nothing to say.
    """

    number: int
    at: Seconds
    uid: int
    what: str
    text: str
    outcome: Outcome
    reason: str


def rollback_to(number: int) -> str:
    """What a revision is called that brings another one back."""
    return f"rollback to {number}"


def one_before(known: Sequence[Revision]) -> int | None:
    """Which revision an operator means who wants "the one before", with the oldest of `known` first.

    A revision that brought another one back stands where that one stood, so that going back twice goes further back:
    neither to what was just left, nor to what was undone.

    Returns:
        Its number; None where nothing else was in force before.
    """
    if not known:
        return None
    place = known[-1]
    while (origin := _origin(place, known)) is not None:
        place = origin
    kept = (each for each in reversed(known) if each.number < place.number and each.outcome is not Outcome.ROLLED_BACK)
    return next((each.number for each in kept if each.text != place.text), None)


def _origin(revision: Revision, known: Sequence[Revision]) -> Revision | None:
    """The older revision that this one brought back, None when it is a change of its own."""
    return next(
        (each for each in known[:-1] if each.number < revision.number and revision.what == rollback_to(each.number)),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms a change is made.

    Attributes:
        within: seconds in which somebody must confirm it; None for a change that stays.
        wait_for_peer: seconds for which a change that the peer does not take is tried again before it is undone; None
            for the usual time, and then a tunnel that is not proven undoes the change at once.
        max_lost: it is undone when more than this share of the tunnels that carried before stops, 0 to 1.
        operator: from where it was made, so that it is undone when the way there is lost; None for the console.
        trial: whether packets must prove it.
    """

    within: Seconds | None = None
    wait_for_peer: Seconds | None = None
    max_lost: float = 0.5
    operator: IPAddress | None = None
    trial: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment that neither a set clock nor a restart of the daemon moves.

    Attributes:
        at: Unix seconds, for people and for after a reboot.
        boot: identity of the machine's start.
        boot_at: the same in seconds since that start, sleep included.
    """

    at: Seconds
    boot: str
    boot_at: Seconds

    def left(self, *, now: Seconds, boot: str, boot_now: Seconds) -> Seconds:
        """Seconds until it goes, 0 or less when the time is over.

        Args:
            now: Unix seconds.
            boot: identity of this start of the machine.
            boot_now: seconds since it.
        """
        return Seconds(self.boot_at - boot_now if boot == self.boot else self.at - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A revision that goes again unless somebody confirms it in time.

    Attributes:
        revision: its number.
        previous: number of the revision that comes back.
        deadline: until when.
    """

    revision: int
    previous: int
    deadline: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A revision that goes again unless packets prove it.

    Attributes:
        revision: its number.
        previous: number of the revision that comes back: the last one that was proven.
        deadline: until when the peer may be waited for.
        patient: somebody said how long to wait, so a tunnel that is not proven waits for the peer too.
    """

    revision: int
    previous: int
    deadline: Deadline
    patient: bool
