"""How far a difference of means may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean


def standard_error(before: Sequence[float], after: Sequence[float]) -> float:
    """Of the difference of two means, from the spread within each; at least two values each.

    Steps count as independent draws, which they are not quite: rules ask for several standard errors.
    """
    return math.sqrt(_variance(before) / len(before) + _variance(after) / len(after))


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
