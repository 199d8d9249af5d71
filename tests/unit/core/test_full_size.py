"""When packets of the MTU's size are said to come through."""

from __future__ import annotations

from ikeorch.core.full_size import DEADLINE, LOSSES, QUICK, USUAL, FullSize


def run(check: FullSize, seconds: float, *, begin: float = 0.0, alive: bool = True, answer: bool = False) -> int:
    """Ask it every 50 ms; how many it wanted to send."""
    sent = 0
    for step in range(int(seconds / 0.05)):
        number = check.next(begin + step * 0.05, alive=alive)
        if number is not None:
            sent += 1
            if answer:
                check.answered(number)
    return sent


def test_one_answer_says_that_they_fit_and_then_few_are_sent() -> None:
    """Quickly at first, then once in a while."""
    assert FullSize(1400, 0.0).fits is None
    check = FullSize(1400, 0.0)
    assert run(check, QUICK, answer=True) == 1
    assert check.fits is True
    assert 2 <= run(check, 3 * USUAL, begin=QUICK, answer=True) <= 4


def test_some_losses_in_a_row_say_that_they_do_not() -> None:
    """Not before: a lossy path loses one now and then."""
    check = FullSize(1400, 0.0)
    enough = (LOSSES - 1) * QUICK + DEADLINE
    early = FullSize(1400, 0.0)
    run(early, enough - 0.1)
    assert early.fits is None
    run(check, enough + 0.3)
    assert check.fits is False


def test_an_answer_between_losses_begins_the_count_anew() -> None:
    """Four lost, one answered, four lost."""
    check = FullSize(1400, 0.0)
    now = 0.0
    for round_number in range(2 * LOSSES - 1):
        number = check.next(now, alive=True)
        assert number is not None
        if round_number == LOSSES - 1:
            check.answered(number)
        else:
            check.refused(number)
        now += USUAL
    assert check.fits is True


def test_what_our_own_kernel_refuses_is_lost_at_once() -> None:
    """It knows the path to be narrower."""
    check = FullSize(1400, 0.0)
    for round_number in range(LOSSES):
        number = check.next(round_number * QUICK, alive=True)
        assert number is not None
        check.refused(number)
    assert check.fits is False


def test_a_silent_tunnel_says_nothing_about_sizes() -> None:
    """What is lost while small probes are lost too is not counted, and nothing is sent."""
    check = FullSize(1400, 0.0)
    run(check, 1.0)
    assert run(check, 5.0, begin=1.0, alive=False) == 0
    assert check.fits is None
