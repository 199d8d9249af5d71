"""Quantities: what is read, what is refused, and that writing and reading agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.units import (
    BitsPerSecond,
    Seconds,
    UnitError,
    bytes_per_second,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
    parse_ratio,
)


@pytest.mark.parametrize(
    ("text", "rate"), [("100G", 10**11), ("2.5G", 25 * 10**8), ("1k", 1000), ("7Mbit/s", 7 * 10**6)]
)
def test_rates_are_read_in_bits_per_second(text: str, rate: int) -> None:
    """A rate is a number and a decimal unit."""
    assert rate == parse_rate(text)


@pytest.mark.parametrize("value", [100, 1.5, True, None, "100", "G", "1e9G", "-1G", "0k", "9999T", "1 G", "\u0661G"])
def test_a_rate_without_a_fitting_unit_is_refused(value: object) -> None:
    """A bare number says nothing about its unit."""
    with pytest.raises(UnitError, match=r"rate|outside"):
        parse_rate(value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("100ms", 0.1), ("30s", 30), ("4h", 14400), ("1.5m", 90), ("30d", 2592000)]
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    """A duration is a number and a unit of time."""
    assert seconds == pytest.approx(parse_duration(text))


@pytest.mark.parametrize("value", [30, "30", "s", "1w", "-1s", "400d", None])
def test_a_duration_without_a_fitting_unit_is_refused(value: object) -> None:
    """A bare number could be seconds or milliseconds."""
    with pytest.raises(UnitError):
        parse_duration(value)


def test_a_share_is_a_percentage() -> None:
    """0.1% is a thousandth; a bare number is refused."""
    assert pytest.approx(0.001) == parse_ratio("0.1%")
    for value in ("0.1", 0.1, "101%"):
        with pytest.raises(UnitError):
            parse_ratio(value)


@given(st.integers(1, 10**15))
def test_a_written_rate_reads_back(rate: int) -> None:
    """What is written is exact to the bit per second."""
    assert rate == parse_rate(format_rate(BitsPerSecond(rate)))


@given(st.integers(0, 366 * 86400 * 1000))
def test_a_written_duration_reads_back(milliseconds: int) -> None:
    """What is written is exact to the millisecond."""
    assert milliseconds == round(parse_duration(format_duration(Seconds(milliseconds / 1000))) * 1000)


def test_link_bandwidth_is_in_bytes() -> None:
    """8 Gbit/s are 1 Gbyte/s."""
    assert float(bytes_per_second(BitsPerSecond(8 * 10**9))) == 1e9
