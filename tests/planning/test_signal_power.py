"""Prompts that an evaluation needs: the test at the planned size sees what it should, as often as it should."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from groupwise.errors import DataError, RunFileError, UserError
from groupwise.planning.signal import Beta, KnownRates
from groupwise.planning.signal_power import (
    FEWEST_PROMPTS,
    Comparison,
    _Difference,
    detection_power,
    prompts_needed,
    smallest_improvement,
)

SKEWED = Beta(0.3, 1.2)
REPEATS = 6000


def seen(
    before: Beta, improvement: float, comparison: Comparison, prompts: int, *, evenly: bool = False
) -> tuple[float, float]:
    """How often two evaluations that are drawn show an improvement, and how often any difference."""
    rng = np.random.default_rng(prompts)
    learned = improvement / (1 - before.expected(1, 0))
    gains, differences = 0, 0
    for _ in range(0, REPEATS, 500):
        first = rng.beta(before.right, before.wrong, (500, prompts))
        second = first if comparison.paired else rng.beta(before.right, before.wrong, (500, prompts))
        chance = learned if evenly else rng.random(second.shape) < learned
        after = second + chance * (1 - second)
        old, new = (rng.binomial(comparison.samples, rates) / comparison.samples for rates in (first, after))
        variance = (new - old).var(1, ddof=1) if comparison.paired else old.var(1, ddof=1) + new.var(1, ddof=1)
        score = (new - old).mean(1) / np.sqrt(variance / prompts)
        bound = NormalDist().inv_cdf(1 - comparison.level / 2)
        gains += int((score > bound).sum())
        differences += int((abs(score) > bound).sum())
    return gains / REPEATS, differences / REPEATS


def four_errors(share: float) -> float:
    return 4 * math.sqrt(share * (1 - share) / REPEATS)


@pytest.mark.parametrize("before", [SKEWED, Beta(2, 2)], ids=str)
@pytest.mark.parametrize("comparison", [Comparison(), Comparison(4), Comparison(paired=False), Comparison(4, False)])
def test_at_the_planned_size_the_test_has_its_power_and_its_level(before: Beta, comparison: Comparison) -> None:
    prompts = prompts_needed(before, 0.1, comparison)
    power, _ = seen(before, 0.1, comparison, prompts)
    assert abs(power - 0.8) < 0.03
    _, false_alarms = seen(before, 0.0, comparison, prompts)
    assert false_alarms <= comparison.level + four_errors(comparison.level)


def test_another_power_and_another_level() -> None:
    comparison = Comparison(2, level=0.01)
    prompts = prompts_needed(SKEWED, 0.1, comparison, power=0.95)
    assert abs(seen(SKEWED, 0.1, comparison, prompts)[0] - 0.95) < 0.03
    assert seen(SKEWED, 0.0, comparison, prompts)[1] <= 0.01 + four_errors(0.01)


@pytest.mark.parametrize("prompts", [40, 100, 250])
@pytest.mark.parametrize("paired", [True, False])
def test_the_power_of_a_given_evaluation(prompts: int, paired: bool) -> None:
    comparison = Comparison(4, paired)
    assert abs(seen(SKEWED, 0.08, comparison, prompts)[0] - detection_power(SKEWED, 0.08, prompts, comparison)) < 0.04


@pytest.mark.parametrize("paired", [True, False])
def test_gains_that_differ_less_are_seen_more_often(paired: bool) -> None:
    comparison = Comparison(8, paired)
    assert seen(SKEWED, 0.1, comparison, prompts_needed(SKEWED, 0.1, comparison), evenly=True)[0] > 0.87


def test_a_given_spread_is_planned_for() -> None:
    even = Comparison(4, spread=0.04 / 0.5 * math.sqrt(0.05))  # c times the standard deviation of Beta(2, 2)
    before = Beta(2, 2)
    prompts = prompts_needed(before, 0.04, even)
    assert abs(seen(before, 0.04, even, prompts, evenly=True)[0] - 0.8) < 0.03
    assert (
        prompts < prompts_needed(before, 0.04, Comparison(4)) < prompts_needed(before, 0.04, Comparison(4, spread=0.5))
    )


def moments_of_gains(samples: int, paired: bool, spread: float | None, draws: tuple[np.ndarray, np.ndarray]) -> None:
    """Two results from these rates differ by the variance that the power is computed with."""
    rng = np.random.default_rng(4)
    old, new = (rng.binomial(samples, rates) / samples for rates in draws)
    shuffled = new if paired else rng.permutation(new)
    planned = _Difference.of(SKEWED, Comparison(samples, paired, spread=spread)).variance(0.1)
    assert planned == pytest.approx((shuffled - old).var(), rel=0.02)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("samples", [1, 4])
def test_the_variance_is_that_of_drawn_differences(samples: int, paired: bool) -> None:
    rng = np.random.default_rng(2)
    before = rng.beta(0.3, 1.2, 400_000)
    evenly = before + 0.125 * (1 - before)
    moments_of_gains(samples, paired, float((evenly - before).std()), (before, evenly))
    learned = np.where(rng.random(len(before)) < 0.125, 1, before)
    moments_of_gains(samples, paired, None, (before, learned))
    moments_of_gains(samples, paired, float((learned - before).std()), (before, learned))


def test_closed_forms_where_all_prompts_are_alike() -> None:
    """p = 0.5 once each: V(x) = 0.25 + (0.5 + x)(0.5 - x) = 0.5 - x^2, so x^2 = z^2 0.5 / (m + z^2)."""
    z, m = 1.959964, 200
    least = z * math.sqrt(0.5 / (m + z**2))
    power = NormalDist().cdf((0.1 - least) / math.sqrt(0.49 / m))
    half = KnownRates((0.5,))
    for paired in (True, False):
        assert detection_power(half, 0.1, m, Comparison(paired=paired)) == pytest.approx(power, abs=1e-6)
    sorted_out = KnownRates((0.0, 1.0))  # half are never solved, a fifth of which is learned: no noise within prompts
    assert _Difference.of(sorted_out, Comparison(7)).variance(0.1) == pytest.approx(0.5 * 0.2 - 0.1**2)
    assert _Difference.of(sorted_out, Comparison(7, False)).variance(0.1) == pytest.approx(0.25 + 0.24)


def test_more_completions_and_the_same_prompts_help_where_they_should() -> None:
    def needed(power: float = 0.8, **settings) -> int:
        return prompts_needed(SKEWED, 0.05, Comparison(**settings), power=power)

    assert needed(samples=1) > needed(samples=4) > needed(samples=16) > needed(samples=10**6) > FEWEST_PROMPTS
    for samples in (1, 4, 16):
        assert needed(samples=samples) < needed(samples=samples, paired=False)
    assert needed(power=0.9) > needed() and needed(level=0.01) > needed()


@pytest.mark.parametrize("comparison", [Comparison(), Comparison(8), Comparison(8, False), Comparison(4, spread=0.3)])
@pytest.mark.parametrize("improvement", [0.02, 0.05, 0.2])
def test_prompts_power_and_improvement_are_inverse_to_each_other(comparison: Comparison, improvement: float) -> None:
    prompts = prompts_needed(SKEWED, improvement, comparison)
    assert detection_power(SKEWED, improvement, prompts, comparison) >= 0.8
    assert smallest_improvement(SKEWED, prompts, comparison) <= improvement
    if prompts > FEWEST_PROMPTS:
        assert detection_power(SKEWED, improvement, prompts - 1, comparison) < 0.8
        assert smallest_improvement(SKEWED, prompts - 1, comparison) > improvement


def test_few_prompts_are_never_enough() -> None:
    assert prompts_needed(KnownRates((0.1,)), 0.8) == FEWEST_PROMPTS


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Comparison(0), RunFileError, "samples is 0; "),
        (lambda: Comparison(level=0), RunFileError, "level is 0; "),
        (lambda: Comparison(level=math.nan), RunFileError, "level is nan; "),
        (lambda: Comparison(spread=-0.1), RunFileError, "spread is -0.1; "),
        (lambda: prompts_needed(SKEWED, 0.1, power=1), RunFileError, "power is 1; "),
        (lambda: smallest_improvement(SKEWED, 100, power=0), RunFileError, "power is 0; "),
        (lambda: prompts_needed(SKEWED, 0), RunFileError, "an improvement of 0 from a pass rate of 0.2; .* below 0.8"),
        (lambda: detection_power(SKEWED, 0.9, 100), RunFileError, "an improvement of 0.9 from"),
        (lambda: detection_power(SKEWED, 0.1, 0), RunFileError, "prompts is 0; "),
        (lambda: prompts_needed(KnownRates((1.0,)), 0.1), DataError, "already; evaluate on harder prompts"),
        (lambda: smallest_improvement(SKEWED, 0), RunFileError, "prompts is 0; "),
        (lambda: smallest_improvement(KnownRates((0.9,)), 5), RunFileError, "5 prompts .* from a pass rate of 0.9"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, error: type[UserError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
