"""What changed between the quarters of a stage, and whether a part of the reward was gamed.

Every number is the mean over a step; quarters are compared by the means of their steps. A change is *clear* where it is
at least 0.02 and three times its standard error (from the spread between steps).

A reward is *gamed* where, from an earlier quarter to the last one, the whole reward rises clearly while a part with a
positive mean and no negative weight, or the share of right completions, clearly loses a fifth or more of it. Named is
the part that explains most of the rise: weight x change is largest. The weights are those with which the parts give
the recorded rewards (least squares), so they need no run file.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from groupwise.alarms.chance import standard_error

QUARTERS = 4
LEAST_STEPS = 8
"""Two steps a quarter: fewer say nothing of chance."""
SMALLEST, ERRORS = 0.02, 3.0
LOST = 0.2
"""Share of a part's mean."""
ZERO = 1e-6
"""Weights this small are those of parts that are only recorded."""
CORRECT = "right completions"
"""What the share of right completions is called among the parts."""


@dataclass(frozen=True, slots=True)
class Change:
    """One number in the first and in the last quarter of the steps."""

    name: str
    first: float
    last: float
    clear: bool

    @property
    def difference(self) -> float:
        """Last minus first."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class PartChange:
    """What a part of the reward has to do with the gain."""

    name: str
    first: float
    last: float
    clear: bool
    weight: float
    """As fitted to the recorded rewards."""
    share_of_gain: float | None
    """weight x change / change of the whole reward; None where that is not clear."""


@dataclass(frozen=True, slots=True)
class Gamed:
    """A reward that rises by one part while others fall."""

    part: str
    share_of_gain: float
    fallen: tuple[str, ...]
    since_quarter: int
    """1 to 3: the change is from this quarter to the fourth."""


def change(name: str, steps: Sequence[float | None], earlier: int = 0) -> Change | None:
    """From one quarter of the steps to the last; None where there are fewer steps with a value than `LEAST_STEPS`."""
    known = [value for value in steps if value is not None]
    if len(known) < LEAST_STEPS:
        return None
    size = len(known) // QUARTERS
    first, last = known[earlier * size : (earlier + 1) * size], known[-size:]
    before, after = statistics.fmean(first), statistics.fmean(last)
    clear = abs(after - before) >= max(SMALLEST, ERRORS * standard_error(first, last))
    return Change(name, before, after, clear)


def part_weights(rows: Sequence[tuple[Mapping[str, float | None], float]]) -> dict[str, float]:
    """The weights w with reward = sum of w x part, by least squares over (parts, reward); a part of None adds 0."""
    names = list(dict.fromkeys(name for parts, _ in rows for name in parts))
    if not names:
        return {}
    table = numpy.array([[parts.get(name) or 0.0 for name in names] for parts, _ in rows])
    rewards = numpy.array([reward for _, reward in rows])
    solution = numpy.linalg.lstsq(table, rewards, rcond=None)[0]
    return dict(zip(names, (float(weight) for weight in solution), strict=True))


def explain_gain(
    reward: Sequence[float | None], parts: Mapping[str, Sequence[float | None]], weights: Mapping[str, float]
) -> list[PartChange]:
    """Each part's change, and its share of the gain of the whole reward; all by step."""
    whole = change("reward", reward)
    explained = []
    for name, values in parts.items():
        own = change(name, values)
        if own is not None:
            gain = None if whole is None or not whole.clear else whole.difference
            share = None if gain is None else weights.get(name, 0.0) * own.difference / gain
            explained.append(PartChange(name, own.first, own.last, own.clear, weights.get(name, 0.0), share))
    return explained


def gamed(
    reward: Sequence[float | None],
    parts: Mapping[str, Sequence[float | None]],
    correct: Sequence[float | None],
    weights: Mapping[str, float],
) -> Gamed | None:
    """Whether a part of the reward was gamed, by the module's rule; all by step."""
    for earlier in range(QUARTERS - 1):
        whole = change("reward", reward, earlier)
        if whole is None or not whole.clear or whole.difference <= 0:
            continue
        changes = [change(name, values, earlier) for name, values in {**parts, CORRECT: correct}.items()]
        known = [one for one in changes if one is not None]
        wanted = [one for one in known if weights.get(one.name, 0.0) > -ZERO]
        fallen = [one.name for one in wanted if one.clear and one.first > 0 and -one.difference >= LOST * one.first]
        gains = {one.name: weights[one.name] * one.difference for one in known if one.name in weights}
        if fallen and gains:
            best = max(gains, key=gains.__getitem__)
            if gains[best] > 0 and best not in fallen:
                return Gamed(best, gains[best] / whole.difference, tuple(fallen), earlier + 1)
    return None
