"""Conditions from pass to pass: raised at once, cleared when absent for the damping time, never seen to flap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.conditions import DAMPED, REGISTRY, Code, Condition, carry_over, next_clearing
from ikeorch.core.units import Seconds

QUICK, SLOW = Code.TUNNEL_DOWN, Code.FABRIC_SESSION_DOWN


def condition(code: Code, message: str = "") -> Condition:
    """As a pass finds it."""
    return Condition(code=code, subject="x", message=message)


def passes(*found: tuple[float, list[Condition]]) -> list[tuple[Condition, ...]]:
    """What is shown after each pass at (second, found)."""
    shown: list[tuple[Condition, ...]] = [()]
    for second, conditions in found:
        shown.append(carry_over(conditions, shown[-1], wall=Seconds(1000 + second), now=Seconds(second)))
    return shown[1:]


def test_every_code_has_its_entry() -> None:
    """And a remedy."""
    assert set(REGISTRY) == set(Code)
    assert all(entry.hint for entry in REGISTRY.values())


def test_one_without_damping_is_cleared_in_the_pass_that_does_not_find_it() -> None:
    """Its beginning is kept while it lasts."""
    first, second, third = passes((0, [condition(QUICK)]), (5, [condition(QUICK, "other")]), (6, []))
    assert [each.since for each in (*first, *second)] == [Seconds(1000)] * 2
    assert second[0].message == "other"
    assert third == ()


def test_a_damped_one_is_cleared_when_it_has_been_absent_long_enough() -> None:
    """Until then it is shown, and says that it is about to be cleared."""
    gone, still, over = passes((0, [condition(SLOW)]), (1, []), (1 + DAMPED - 0.1, []), (1 + DAMPED, []))[1:]
    assert [each.absent_since for each in (*gone, *still)] == [Seconds(1)] * 2
    assert next_clearing(gone) == 1 + DAMPED
    assert over == ()


def test_one_that_comes_and_goes_is_one_condition() -> None:
    """With its first beginning; nothing is cleared while it lasts."""
    shown = passes(*((second, [condition(SLOW)] if second % 2 == 0 else []) for second in range(10)))
    assert {each.since for conditions in shown for each in conditions} == {Seconds(1000)}
    assert [len(conditions) for conditions in shown] == [1] * 10
    assert next_clearing(shown[8]) is None


def test_a_clock_that_jumps_changes_nothing() -> None:
    """Damping counts monotonic seconds."""
    before = carry_over([condition(SLOW)], (), wall=Seconds(1000), now=Seconds(0))
    absent = carry_over([], before, wall=Seconds(90000), now=Seconds(1))
    assert len(absent) == 1
    assert carry_over([], absent, wall=Seconds(0), now=Seconds(1 + DAMPED)) == ()


@given(st.lists(st.tuples(st.floats(0.01, 5), st.sets(st.sampled_from(Code)))))
def test_what_is_found_is_always_shown_and_what_is_long_gone_never(steps: list[tuple[float, set[Code]]]) -> None:
    """For any sequence of passes; each is shown once."""
    shown: tuple[Condition, ...] = ()
    now, gone = 0.0, dict[Code, float]()
    for step, codes in steps:
        now += step
        gone = {code: gone.get(code, now) for code in set(Code) - codes}
        shown = carry_over([condition(code) for code in codes], shown, wall=Seconds(now), now=Seconds(now))
        found = [each.code for each in shown]
        assert len(found) == len(set(found))
        assert codes <= set(found)
        assert all(each.absent_since is None for each in shown if each.code in codes)
        assert all(now - gone[code] < REGISTRY[code].damping for code in set(found) - codes)
