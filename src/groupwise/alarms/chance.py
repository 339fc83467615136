"""How far a difference of means may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean


def standard_error(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the difference of two means, from the spread within each, values as independent draws; at least two each."""
    return math.sqrt(_variance(before) / len(before) + _variance(after) / len(after))


def error_without_change(values: Sequence[float]) -> float:
    """Of the difference between the mean of these and that of as many later ones, if nothing changes; at least two.

    It is taken from the earlier values alone: the spread of what changes is part of the change. With the correlation r
    of a value and the next one, at least 0, means spread sqrt((1 + r) / (1 - r)) times as much as those of independent
    draws.
    """
    mean = fmean(values)
    departures = [value - mean for value in values]
    squares = sum(value * value for value in departures)
    products = sum(one * other for one, other in pairwise(departures))
    correlation = max(0.0, products / squares) if squares > 0 else 0.0
    return standard_error(values, values) * math.sqrt((1 + correlation) / (1 - correlation))


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
