"""How much a group-relative algorithm can learn from prompts of given pass rates, before anything is sampled.

A prompt is drawn, with the pass rate p that this model has on it, and G completions of it are right or wrong
independently. A group gives signal where it holds both. Over prompts,

    groups with signal    E[1 - p^G - (1-p)^G]
    error of the baseline E[sqrt(p (1-p) / G)]

so all depends on how pass rates are distributed, not on their mean alone: at a mean of 0.5 nearly every group of eight
may give signal, or none. The distribution is a list of known rates, or a Beta fitted to counts. With few completions
per prompt it should be the Beta: 0 of 8 right isn't a pass rate of 0, and taking it for one loses the signal of larger
groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from groupwise.errors import DataError, RunFileError

SIZES = (2, 4, 8, 16, 32, 64)
"""Group sizes to compare."""

CONCENTRATIONS = (1e-3, 1e5)
"""Least and largest right + wrong of a fitted Beta: nearly every prompt always or never solved; all prompts alike."""

HALVINGS = 60
"""Of an interval in which a root lies, until a float can't tell its ends apart."""


class PassRates(Protocol):
    """How pass rates are distributed over prompts."""

    def expected(self, right: float, wrong: float) -> float:
        """E[p^right (1-p)^wrong]. For whole numbers: the chance that of right + wrong completions of one prompt the
        first are right and the others wrong."""
        ...


@dataclass(frozen=True)
class KnownRates:
    """Known pass rates, one per prompt and each as likely as the others; a single one for prompts that are all alike.

    Raises `DataError` where there is none, or one that isn't between 0 and 1.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise DataError("there are no pass rates to plan with", fix="give one per prompt, or one for all")
        for index, value in enumerate(self.values):
            if not 0 <= value <= 1:
                raise DataError(f"pass rate {index + 1} is {value}", fix="give shares of right completions, 0 to 1")

    def expected(self, right: float, wrong: float) -> float:
        """The mean of p^right (1-p)^wrong."""
        return math.fsum(rate**right * (1 - rate) ** wrong for rate in self.values) / len(self.values)


@dataclass(frozen=True)
class Beta:
    """Pass rates with the density p^(right-1) (1-p)^(wrong-1) / B(right, wrong), and the mean right / (right + wrong).

    Raises `DataError` where a parameter isn't above 0.
    """

    right: float
    wrong: float

    def __post_init__(self) -> None:
        for name, value in (("right", self.right), ("wrong", self.wrong)):
            if not 0 < value < math.inf:
                raise DataError(f"a Beta distribution with {name} = {value}", fix="give a number above 0")

    def expected(self, right: float, wrong: float) -> float:
        """B(self.right + right, self.wrong + wrong) / B(self.right, self.wrong)."""
        return math.exp(_log_beta(self.right + right, self.wrong + wrong) - _log_beta(self.right, self.wrong))

    @classmethod
    def fit(cls, counts: Sequence[tuple[int, int]]) -> Beta:
        """The Beta under which these (right, sampled) counts, one pair per prompt, are the most likely.

        Maximum likelihood of the beta-binomial distribution: for a concentration s = right + wrong the best mean is
        the root of a falling function, and s is a root along that curve, within `CONCENTRATIONS`. Prompts may have
        been sampled unequally often. Raises `DataError` where the counts don't determine it.
        """
        _check(counts)
        import numpy as np

        right, sampled = np.array(counts).T
        steps = np.arange(sampled.max())
        # How many prompts have more than i right, wrong, sampled: all that the likelihood depends on.
        rights, wrongs, sizes = (
            len(counts) - np.cumsum(np.bincount(numbers, minlength=len(steps)))[: len(steps)]
            for numbers in (right, sampled - right, sampled)
        )

        def slopes(mean: float, total: float) -> tuple[float, float]:
            """d log-likelihood / d (total * mean), and the same for total * (1 - mean), up to a common term."""
            return np.sum(rights / (total * mean + steps)), np.sum(wrongs / (total * (1 - mean) + steps))

        def best_mean(total: float) -> float:
            return _root(lambda mean: float(np.subtract(*slopes(mean, total))), 0, 1)

        def slope(log_total: float) -> float:
            total = math.exp(log_total)
            mean = best_mean(total)
            of_right, of_wrong = slopes(mean, total)
            return float(mean * of_right + (1 - mean) * of_wrong - np.sum(sizes / (total + steps)))

        total = math.exp(_root(slope, *map(math.log, CONCENTRATIONS)))
        mean = best_mean(total)
        return cls(total * mean, total * (1 - mean))


@dataclass(frozen=True)
class GroupSignal:
    """What groups of one size give. Rewards are right or wrong; graded ones give at least as much signal."""

    size: int
    """G."""
    all_right: float
    """Share of groups without signal since every completion is right: E[p^G]."""
    all_wrong: float
    """E[(1-p)^G]."""
    with_signal: float
    """Share of groups with both, and of samples that lie in such groups: E[1 - p^G - (1-p)^G]."""
    effective_prompts: float
    """Prompts of a step whose groups give signal, on average."""
    baseline_error: float
    """Standard error of the group's mean reward as an estimate of p, averaged over prompts: E[sqrt(p (1-p) / G)]."""
    leave_one_out_error: float
    """The same of the mean of the G - 1 others, with which RLOO compares a completion: E[sqrt(p (1-p) / (G-1))]."""


def group_signal(rates: PassRates, prompts: int, sizes: Sequence[int] = SIZES) -> tuple[GroupSignal, ...]:
    """What groups of each size give in a step of `prompts` prompts. Raises `RunFileError` for sizes below 2."""
    _at_least_one(prompts=prompts)
    return tuple(_group_signal(rates, prompts, size) for size in sizes)


def _group_signal(rates: PassRates, prompts: int, size: int) -> GroupSignal:
    if size < 2:
        raise RunFileError(
            f"a group size of {size} leaves nothing to compare a completion with, so no group gives signal",
            fix="take 2 or more completions per prompt",
        )
    right, wrong = rates.expected(size, 0), rates.expected(0, size)
    mixed = max(0.0, 1 - right - wrong)
    deviation = rates.expected(0.5, 0.5)
    errors = (deviation / math.sqrt(size), deviation / math.sqrt(size - 1))
    return GroupSignal(size, right, wrong, mixed, prompts * mixed, *errors)


@dataclass(frozen=True)
class Refilling:
    """What dynamic sampling does in a step that wants so many groups with signal: expectations."""

    rounds: float
    """Rounds of sampling."""
    groups: float
    """Groups sampled."""
    samples: float
    """Completions sampled."""
    trained: float
    """Groups with signal that the step gets, at most those it wants."""
    surplus: float
    """Groups with signal beyond those, which are thrown away."""
    exhausted: float
    """Probability that the last round allowed still leaves too few."""


def refilling(rates: PassRates, size: int, wanted: int, *, drawn: int | None = None, max_rounds: int = 10) -> Refilling:
    """Rounds of `drawn` prompts (None: as many as wanted) until `wanted` groups of `size` give signal.

    Each round's prompts are drawn anew, so after r rounds K ~ Binomial(r * drawn, share with signal) groups give
    signal, and a further round follows where K < wanted and r < max_rounds:

        E[rounds] = sum over r < max_rounds of P(K_r < wanted)

    exactly. Prompts that come in epochs, none twice before all have come once, vary a little less.
    Raises `RunFileError` for sizes below 2 and for other numbers below 1.
    """
    drawn = wanted if drawn is None else drawn
    _at_least_one(wanted=wanted, drawn=drawn, max_rounds=max_rounds)
    share = _group_signal(rates, wanted, size).with_signal
    rounds = sum(sum(_binomial(done * drawn, share, wanted)) for done in range(max_rounds))
    short = _binomial(max_rounds * drawn, share, wanted)
    trained = wanted - sum((wanted - kept) * chance for kept, chance in enumerate(short))
    groups = drawn * rounds
    surplus = max(0.0, share * groups - trained)  # Wald: the groups kept are their share of those sampled
    return Refilling(rounds, groups, size * groups, trained, surplus, sum(short))


def _binomial(trials: int, chance: float, below: int) -> list[float]:
    """P(K = k) of a binomial number, for k < below."""
    if chance in (0, 1):
        certain = trials if chance else 0
        return [float(number == certain) for number in range(below)]
    return [
        math.exp(
            k * math.log(chance)
            + (trials - k) * math.log1p(-chance)
            - _log_beta(k + 1, trials - k + 1)
            - math.log(trials + 1)
        )
        for k in range(min(below, trials + 1))
    ]


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0 in an interval; the end nearer to it where it doesn't."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _check(counts: Sequence[tuple[int, int]]) -> None:
    """Whether counts determine a Beta."""
    if not counts:
        raise DataError("there are no counts to fit pass rates to", fix="give (right, sampled) for each prompt")
    for index, (right, sampled) in enumerate(counts):
        if not 0 <= right <= sampled or sampled < 1:
            raise DataError(
                f"prompt {index + 1} has {right} right of {sampled} sampled", fix="give 0 <= right <= sampled"
            )
    right, sampled = (sum(column) for column in zip(*counts, strict=True))
    if right in (0, sampled):
        raise DataError(
            f"all {sampled} completions are {'right' if right else 'wrong'}, which doesn't tell how prompts differ",
            fix=f"sample more, take {'harder' if right else 'easier'} prompts, or plan with one pass rate",
        )
    if all(size == 1 for _, size in counts):
        raise DataError(
            "one completion per prompt doesn't tell how prompts differ",
            fix="sample each at least twice, or plan with one pass rate",
        )


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise RunFileError(f"{name} is {number}", fix="give a whole number of 1 or more")
