"""Who decides a weight: capacities become the kernel's small integers.

The kernel takes 1 to 256 a next hop. Weights are scaled so that the largest uses the range as well as it can and
equal capacities always get equal weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd
from typing import TypeVar

K = TypeVar("K")
MAX_WEIGHT = 256


def quantise_weights(capacities: Mapping[K, int]) -> dict[K, int]:
    """Turn capacities into next-hop weights with nearly the same proportions.

    Exact when the proportions fit into 1..256, else each is rounded to the nearest of 256 steps of the largest.

    Args:
        capacities: bits/s, at least 1 each.

    Returns:
        A weight from 1 to 256 for each key; empty for an empty mapping.
    """
    if not capacities:
        return {}
    divisor = gcd(*capacities.values())
    largest = max(capacities.values())
    if largest // divisor <= MAX_WEIGHT:
        return {key: capacity // divisor for key, capacity in capacities.items()}
    return {key: max(1, round(Fraction(capacity * MAX_WEIGHT, largest))) for key, capacity in capacities.items()}
