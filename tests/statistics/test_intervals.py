"""Intervals of means over prompts: known values, and how often they hold the truth in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from groupwise.statistics.intervals import at_most_unseen, mean_interval, ratio_interval, share_interval
from groupwise.statistics.seeds import spread
from groupwise.statistics.student import quantile, two_sided


def test_quantiles_are_those_of_the_tables() -> None:
    """Fisher and Yates, two-sided 5 %."""
    table = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {freedom: round(quantile(freedom), 3) for freedom in table} == table
    assert two_sided(0.0, 3) == pytest.approx(1.0)
    assert two_sided(quantile(7), 7) == pytest.approx(0.05)
    assert two_sided(-2.0, 1_000_000) == pytest.approx(0.0455, abs=1e-4)


def test_interval_of_a_mean() -> None:
    low, high = mean_interval([1.0, 2.0, 3.0, 4.0]) or (0.0, 0.0)
    half = 3.1824 * (5 / 3 / 4) ** 0.5
    assert (low, high) == pytest.approx((2.5 - half, 2.5 + half), abs=1e-3)
    assert mean_interval([1.0]) is None and mean_interval([]) is None
    assert ratio_interval([2.0, 4.0, 6.0, 8.0], [2] * 4) == pytest.approx((low, high))


def test_interval_of_a_share_stays_inside_and_is_never_certain() -> None:
    assert share_interval([0.5]) is None
    assert share_interval([0.0] * 20) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert share_interval([1.0] * 20) == pytest.approx((0.025 ** (1 / 20), 1.0))
    assert at_most_unseen(1000) == pytest.approx(3.689 / 1000, rel=0.01)
    for shares in ([0.0] * 19 + [1.0], [0.5] * 5, [1.0, 0.0], [0.99] * 30):
        low, high = share_interval(shares) or (1.0, 0.0)
        assert 0 <= low < sum(shares) / len(shares) < high <= 1


def test_yes_and_no_have_nearly_wilsons_interval() -> None:
    """30 of 100: Wilson's with 1.96 is [0.2189, 0.3959]; ours has t and 99.5 for 1.96 and 100."""
    assert share_interval([1.0] * 30 + [0.0] * 70) == pytest.approx((0.2189, 0.3959), abs=2e-3)


def test_many_samples_of_few_prompts_do_not_narrow_what_prompts_leave_open() -> None:
    rates = [0.0, 0.2, 0.9, 1.0, 0.6, 0.1, 0.4, 0.8]
    low, high = share_interval(rates) or (0.0, 0.0)
    as_if_independent = 2 * 1.96 * (0.25 / (8 * 1000)) ** 0.5
    assert high - low > 10 * as_if_independent


@pytest.mark.parametrize("prompts", [20, 50, 200])
def test_shares_are_covered_in_93_to_97_of_100_cases(prompts: int) -> None:
    """Rates of prompts from Beta(a, b): most prompts hard, or all or nothing, or in between."""
    draw = np.random.default_rng(prompts)
    covered: list[float] = []
    for a, b in [(0.3, 2.7), (0.5, 0.5), (0.2, 0.8), (2.0, 2.0)]:
        for completions in (1, 4, 16):
            shares = draw.binomial(completions, draw.beta(a, b, (1500, prompts))) / completions
            found = [share_interval(row) for row in shares.tolist()]
            covered.append(np.mean([low <= a / (a + b) <= high for low, high in filter(None, found)]).item())
    assert 0.93 <= sum(covered) / len(covered) <= 0.97
    noise = 2.5 * (0.05 * 0.95 / 1500) ** 0.5
    assert 0.93 - noise <= min(covered) and max(covered) <= 0.97 + noise


def test_means_of_numbers_without_bounds_are_covered() -> None:
    draw = np.random.default_rng(0)
    for prompts in (5, 20, 100):
        rows = draw.normal(3.0, 2.0, (2000, prompts))
        found = [mean_interval(row) for row in rows.tolist()]
        assert 0.935 <= np.mean([low <= 3.0 <= high for low, high in filter(None, found)]) <= 0.965


def test_spread_over_seeds() -> None:
    one = spread([0.5])
    assert (one.mean, one.deviation, one.interval) == (0.5, None, None)
    three = spread([0.4, 0.5, 0.6])
    assert (three.seeds, three.low, three.high) == (3, 0.4, 0.6)
    assert three.deviation == pytest.approx(0.1)
    assert three.interval == pytest.approx((0.5 - 4.3027 * 0.1 / 3**0.5, 0.5 + 4.3027 * 0.1 / 3**0.5), abs=1e-3)
