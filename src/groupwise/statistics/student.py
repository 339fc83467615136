"""Student's t distribution: what an interval from few prompts needs instead of the normal one's 1.96."""

from __future__ import annotations

from functools import lru_cache

import mpmath  # type: ignore[import-untyped]

LEVEL = 0.95
"""Of every interval."""


@lru_cache(maxsize=4096)
def quantile(freedom: int) -> float:
    """The t beyond which, on both sides together, lies 1 - LEVEL of the distribution with these degrees of freedom."""
    low, high = 1.0, 13.0  # 1.96 for infinitely many, 12.71 for one
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - LEVEL else (low, middle)
    return (low + high) / 2


def two_sided(t: float, freedom: int) -> float:
    """The probability of a t at least this far from 0, on either side: I_x(f/2, 1/2) at x = f / (f + t²)."""
    return float(mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True))
