"""Several runs that differ by their seed alone: where they are on the whole, and how far they lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groupwise.statistics.intervals import Interval, mean_interval


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one number per seed."""

    seeds: int
    mean: float
    deviation: float | None
    """Standard deviation over seeds (of the sample, n - 1); None for one seed."""
    low: float
    high: float
    """Smallest and largest."""
    interval: Interval | None
    """95 % of the mean: where that of further seeds would lie. None for one seed."""


def spread(values: Sequence[float]) -> Spread:
    """Seeds are the independent draws here; what a seed's own prompts leave open is part of what differs."""
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum((value - mean) ** 2 for value in values)
    deviation = None if count < 2 else math.sqrt(squares / (count - 1))
    return Spread(count, mean, deviation, min(values), max(values), mean_interval(values))
