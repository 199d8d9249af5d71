"""Which revision an operator means who goes back without saying where to."""

from __future__ import annotations

import pytest

from ikeorch.core.revision import Outcome, Revision, one_before, rollback_to
from ikeorch.core.units import Seconds


def history(*steps: str | int) -> list[Revision]:
    """Revisions from 1: a text that was put in force, "!" behind it if it was undone; a number is a rollback to it."""
    known: list[Revision] = []
    for number, step in enumerate(steps, 1):
        undone = str(step).endswith("!")
        text = known[step - 1].text if isinstance(step, int) else step.removesuffix("!")
        known.append(
            Revision(
                number=number,
                at=Seconds(number),
                uid=0,
                what=rollback_to(step) if isinstance(step, int) else "apply",
                text=text,
                outcome=Outcome.ROLLED_BACK if undone else Outcome.REPLACED,
                reason="",
            )
        )
    return known


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), None),
        (("a",), None),
        (("a", "b"), 1),
        (("a", "b", "b"), 1),
        (("a", "b", "c"), 2),
        (("a", "b!", 1), None),
        (("a", "b", "c!", 2), 1),
        (("a", "b", "c", 2), 1),
        (("a", "b", "c", 2, 1), None),
        (("a", "b", "c", 2, 4), 1),
        (("a", "b!", 1, "c"), 3),
        (("a", "b", 1, "b"), 3),
        (("a", "b!", "c"), 1),
    ],
)
def test_going_back_leads_to_what_was_in_force_before(steps: tuple[str | int, ...], expected: int | None) -> None:
    """Never to what was undone, nor forward to what was just left."""
    assert one_before(history(*steps)) == expected
