"""JSON that comes from anywhere, before its shape is looked at: nothing in it may hurt whoever shows or computes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

MAX_TEXT = 16 * 1024 * 1024
"""Characters in one text: all files of a configuration together are the longest."""
MAX_NUMBER = 2**63

Place = tuple[str | int, ...]


def read_object(raw: bytes) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        raw: its text; the caller bounds its length.

    Raises:
        ValueError: it is none, or holds what cannot be printed or computed with; what is wrong, and where.
    """
    try:
        data = json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one kind of error for callers
    for where, value in _leaves(data):
        _check_leaf(where, value)
    return data


def _refuse_constant(text: str) -> object:
    raise ValueError(f"{text} is no number")


def _leaves(data: dict[str, Any]) -> Iterator[tuple[Place, object]]:
    """Every value and every key, with its place; without recursion."""
    waiting: list[tuple[Place, object]] = [((), data)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                yield where, key
                waiting.append(((*where, key), inner))
        elif isinstance(value, list):
            waiting.extend(((*where, at), inner) for at, inner in enumerate(value))
        else:
            yield where, value


def _check_leaf(where: Place, value: object) -> None:
    """Nothing may hold what moves a terminal's cursor, and no number what arithmetic chokes on."""
    if isinstance(value, str) and (len(value) > MAX_TEXT or not value.replace("\n", "").isprintable()):
        raise ValueError(f"{place_text(where)}: a text that is too long, or holds characters that cannot be printed")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place_text(where)}: a number without end")
    if isinstance(value, int | float) and abs(value) >= MAX_NUMBER:
        raise ValueError(f"{place_text(where)}: a number that is too large")


def place_text(where: Place) -> str:
    """A place in it, as messages show it."""
    text = ".".join(str(part) for part in where)[:120]
    return text if text.isprintable() else ascii(text)
