"""95 % intervals of a mean over prompts, which are the independent draws: completions of one prompt are alike.

A mean of any numbers (rewards) has Student's interval, mean +- t s / sqrt(n). That misses too often where the numbers
are shares between 0 and 1 and most of them lie at one end: few prompts that are ever solved, or none. A mean of shares
has Wilson's interval instead, with the number of prompts that a mean of yes and no would need to be as certain:

    m = p (1 - p) / v,    v = [sum (x - p)^2 + p (1 - p) / 2] / (n - 1/2) / n

(Korn and Graubard, Survey Methodology 24, 1998; Wilson, JASA 22, 1927.) The half prompt in v keeps few prompts that
agree by chance from claiming too much. Where all prompts are 0, or all are 1, the end is that of Clopper and Pearson.

In simulation, with 20 to 200 prompts, 1 to 16 completions each and rates from Beta distributions with means of 0.1 to
0.5, it covers in 93 to 97 % of cases. Where hardly a prompt is ever solved, as with Beta(0.1, 0.9) and Beta(0.1, 1.9),
and prompts are at most 50, it covers in 90 to 98 %, and Student's in 62 to 94 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupwise.statistics.student import LEVEL, quantile

Interval = tuple[float, float]

PRIOR = 0.5
"""Prompts that are as far apart as shares can be, added to the variance."""


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Of the mean of independent numbers without bounds; None below two."""
    return ratio_interval(values, [1.0] * len(values))


def share_interval(shares: Sequence[float]) -> Interval | None:
    """Of the mean of independent numbers between 0 and 1, one per prompt; None below two."""
    count = len(shares)
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares), "shares lie between 0 and 1"
    if count < 2:
        return None
    mean = math.fsum(shares) / count
    spread = mean * (1 - mean)
    if max(shares) == min(shares) and spread < 1e-12:
        beyond = at_most_unseen(count)
        return (0.0, beyond) if mean < 0.5 else (1 - beyond, 1.0)
    squares = math.fsum((share - mean) ** 2 for share in shares)
    size = spread * (count - 1 + PRIOR) * count / (squares + PRIOR * spread)
    squared = quantile(count - 1) ** 2
    middle = (mean + squared / size / 2) / (1 + squared / size)
    half = math.sqrt(squared * (spread / size + squared / size**2 / 4)) / (1 + squared / size)
    return max(0.0, middle - half), min(1.0, middle + half)


def ratio_interval(totals: Sequence[float], counts: Sequence[float]) -> Interval | None:
    """Of sum(totals) / sum(counts) from independent clusters, a total and a count each, to first order; that of the
    mean where every count is the same. None below two clusters."""
    clusters = len(totals)
    if clusters < 2:
        return None
    ratio, size = math.fsum(totals) / math.fsum(counts), math.fsum(counts) / clusters
    squares = math.fsum(((total - ratio * count) / size) ** 2 for total, count in zip(totals, counts, strict=True))
    half = quantile(clusters - 1) * math.sqrt(squares / (clusters - 1) / clusters)
    return ratio - half, ratio + half


def at_most_unseen(count: int) -> float:
    """The largest probability of an event that can well have stayed away `count` times: about 3.7 / count."""
    return float(-math.expm1(math.log((1 - LEVEL) / 2) / count))
