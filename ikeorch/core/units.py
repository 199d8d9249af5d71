"""Units as types, and how people write them.

Bits per second are for people and for capacities; bytes per second exist only in BGP's link bandwidth. The one
converter between the two stands here.
"""

from __future__ import annotations

import re
from typing import NewType

Seconds = NewType("Seconds", float)
BitsPerSecond = NewType("BitsPerSecond", int)
BytesPerSecond = NewType("BytesPerSecond", float)

_RATE_FACTORS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIME_FACTORS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)"
_RATE = re.compile(rf"{_NUMBER}([kMGT])(?:bit/s)?")
_TIME = re.compile(rf"{_NUMBER}(ms|s|m|h|d)")
_RATIO = re.compile(rf"{_NUMBER}%")


class UnitError(ValueError):
    """A quantity without a unit, or with one that does not fit."""


def parse_rate(text: object) -> BitsPerSecond:
    """Read a capacity such as ``100G`` or ``2.5Gbit/s``.

    Args:
        text: what the configuration holds; only a string with a unit is taken.

    Returns:
        Bits per second, from 1 to 10**15.

    Raises:
        UnitError: a bare number, an unknown unit, zero, or more than 1 Pbit/s.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"{text!r} is not a rate; write a number with k, M, G or T (bit/s), such as 100G")
    rate = round(float(match[1]) * _RATE_FACTORS[match[2]])
    if not 1 <= rate <= 10**15:
        raise UnitError(f"{text!r} is outside 1 bit/s to 1000T")
    return BitsPerSecond(rate)


def parse_duration(text: object) -> Seconds:
    """Read a duration such as ``100ms``, ``30s`` or ``4h``.

    Raises:
        UnitError: a bare number, an unknown unit, or more than 366 days.
    """
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"{text!r} is not a duration; write a number with ms, s, m, h or d, such as 30s")
    duration = float(match[1]) * _TIME_FACTORS[match[2]]
    if duration > 366 * 86400:
        raise UnitError(f"{text!r} is longer than 366 days")
    return Seconds(duration)


def parse_ratio(text: object) -> float:
    """Read a share such as ``0.1%`` as a number from 0 to 1.

    Raises:
        UnitError: a bare number or more than 100 %.
    """
    match = _RATIO.fullmatch(text) if isinstance(text, str) else None
    if match is None or float(match[1]) > 100:
        raise UnitError(f"{text!r} is not a share; write a percentage from 0% to 100%, such as 0.1%")
    return float(match[1]) / 100


def format_rate(rate: BitsPerSecond) -> str:
    """Write a rate the way `parse_rate` reads it, with the largest unit that stays exact."""
    for unit in ("T", "G", "M", "k"):
        if rate % _RATE_FACTORS[unit] == 0:
            return f"{rate // _RATE_FACTORS[unit]}{unit}"
    return f"{rate / 1000:.3f}".rstrip("0").rstrip(".") + "k"


def format_duration(duration: Seconds) -> str:
    """Write a duration the way `parse_duration` reads it, with the largest unit that stays exact."""
    milliseconds = round(duration * 1000)
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor}{unit}"
    return f"{milliseconds}ms"


def bytes_per_second(rate: BitsPerSecond) -> BytesPerSecond:
    """Convert a capacity to the unit of BGP's link bandwidth (draft-ietf-idr-link-bandwidth)."""
    return BytesPerSecond(rate / 8)
