"""How many prompts an evaluation needs, so that an improvement of the pass rate shows.

Prompts are the independent draws: one stands for many others, and k completions of it share its difficulty. An
evaluation's result is the mean over m prompts of their share of right completions; with p before and p' after, the
difference of two results has the variance V / m, where

    different prompts    V = Var p + E[p (1-p)] / k + Var p' + E[p' (1-p')] / k
    the same prompts     V = Var(p' - p) + (E[p (1-p)] + E[p' (1-p')]) / k

Over the same prompts their difficulty cancels, so fewer are needed wherever it differs. More completions per prompt
lessen what is divided by k alone. Of p' only the mean is asked for, and a prompt's gain is taken to be in proportion to
what it has to gain: c (1 - p) on average, with c = improvement / (1 - E[p]). How much gains differ beyond that is
`spread`, the standard deviation of p' - p, and then

    Var p' = spread^2 + (1 - 2c) Var p,    E[p' (1-p')] = E[p'] (1 - E[p']) - Var p'

Without a spread a prompt is learned with the chance c, so that p' = 1, or stays as it was. Gains that differ less need
fewer prompts. Gains on the hardest prompts alone, or at the cost of others, need more: then give a measured spread.

A difference x is seen where it is above z sqrt(V / m), with z of the two-sided level and V estimated from the same
prompts: a z test, or an interval of confidence 1 - level that lies above 0, as it is printed after a run. Where few
prompts gain much, V is smaller in draws that show a smaller difference, so the least x that is seen solves
x = z sqrt(V(x) / m), and

    power = Phi((improvement - x) / sqrt(V(improvement) / m))

In simulation that is within three points of a power of 0.8, 0.9 and 0.95, and up to six too low where an improvement
brings the pass rate near 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from groupwise.errors import DataError, RunFileError
from groupwise.planning.signal import HALVINGS, PassRates

FEWEST_PROMPTS = 30
"""For which the normal distribution describes a mean whose variance is estimated, too."""


@dataclass(frozen=True)
class Comparison:
    """How two evaluations are compared. Raises `RunFileError` for impossible values."""

    samples: int = 1
    """Completions per prompt, k, in each evaluation."""
    paired: bool = True
    """Both evaluations have the same prompts."""
    level: float = 0.05
    """How often a difference is seen, in either direction, where there is none."""
    spread: float | None = None
    """Standard deviation of p' - p over prompts; None: that of prompts which are learned wholly or not at all."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise RunFileError(f"samples is {self.samples}", fix="give 1 completion per prompt or more")
        _between_0_and_1("level", self.level)
        if self.spread is not None and not 0 <= self.spread <= 1:
            raise RunFileError(f"spread is {self.spread}", fix="give a standard deviation of pass rates, 0 to 1")


def detection_power(rates: PassRates, improvement: float, prompts: int, comparison: Comparison | None = None) -> float:
    """The chance that evaluations with so many prompts each show an improvement of the mean pass rate.

    Too low below `FEWEST_PROMPTS`, where an estimated variance is often too small and so is the interval. Raises
    `RunFileError` for an improvement that isn't above 0 and below what there is to improve.
    """
    difference = _Difference.of(rates, comparison)
    difference.check(improvement)
    _check_prompts(prompts)
    return difference.power(improvement, prompts)


def prompts_needed(
    rates: PassRates, improvement: float, comparison: Comparison | None = None, *, power: float = 0.8
) -> int:
    """Prompts in each of two evaluations, `FEWEST_PROMPTS` at least, that show an improvement with this power.

    Raises `RunFileError` for an improvement that isn't above 0 and below what there is to improve.
    """
    difference = _Difference.of(rates, comparison)
    difference.check(improvement)
    _between_0_and_1("power", power)
    enough = FEWEST_PROMPTS
    while difference.power(improvement, enough) < power:
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if difference.power(improvement, middle) >= power else (middle, enough)
    return max(FEWEST_PROMPTS, enough)


def smallest_improvement(
    rates: PassRates, prompts: int, comparison: Comparison | None = None, *, power: float = 0.8
) -> float:
    """The least improvement of the mean pass rate that evaluations with so many prompts each show with this power.

    Raises `RunFileError` where they would hardly show a rise to 1.
    """
    difference = _Difference.of(rates, comparison)
    _check_prompts(prompts)
    _between_0_and_1("power", power)
    low, high = 0.0, 1 - difference.mean
    if difference.power(high, prompts) < power:
        raise RunFileError(
            f"{prompts} prompts show no improvement from a pass rate of {difference.mean:.3g} with a power of {power}",
            fix="evaluate more prompts",
        )
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if difference.power(middle, prompts) >= power else (middle, high)
    return high


@dataclass(frozen=True)
class _Difference:
    """Of two results: what its variance depends on."""

    mean: float
    """E[p]."""
    square: float
    """E[p^2]."""
    comparison: Comparison

    @classmethod
    def of(cls, rates: PassRates, comparison: Comparison | None) -> _Difference:
        mean = rates.expected(1, 0)
        if mean >= 1:
            raise DataError("every completion is right already", fix="evaluate on harder prompts")
        return cls(mean, rates.expected(2, 0), comparison or Comparison())

    def check(self, improvement: float) -> None:
        room = 1 - self.mean
        if not 0 < improvement < room:
            raise RunFileError(
                f"an improvement of {improvement} from a pass rate of {self.mean:.3g}",
                fix=f"give one above 0 and below {room:.3g}",
            )

    def variance(self, improvement: float) -> float:
        """V."""
        by, mean = self.comparison, self.mean
        goal, learned = mean + improvement, improvement / (1 - mean)
        between = max(0.0, self.square - mean**2)
        spread = learned * (1 - 2 * mean + self.square) - improvement**2 if by.spread is None else by.spread**2
        after = max(0.0, spread + (1 - 2 * learned) * between)
        within = mean - self.square + max(0.0, goal * (1 - goal) - after)
        return max(0.0, spread if by.paired else between + after) + within / by.samples

    def power(self, improvement: float, prompts: int) -> float:
        """The chance to see this improvement."""
        margin = improvement - self.threshold(prompts)
        error = math.sqrt(self.variance(improvement) / prompts)
        return NormalDist().cdf(margin / error) if error > 0 else float(margin > 0)

    def threshold(self, prompts: int) -> float:
        """The least difference that is seen; all there is to gain where even that is not."""
        z = NormalDist().inv_cdf(1 - self.comparison.level / 2)
        low, high = 0.0, 1 - self.mean
        for _ in range(HALVINGS):  # x / sqrt(V(x)) rises with x, for V is concave
            x = (low + high) / 2
            low, high = (low, x) if x >= z * math.sqrt(self.variance(x) / prompts) else (x, high)
        return high


def _between_0_and_1(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise RunFileError(f"{name} is {value}", fix="give a probability above 0 and below 1")


def _check_prompts(prompts: int) -> None:
    if prompts < 1:
        raise RunFileError(f"prompts is {prompts}", fix="give a whole number of 1 or more")
