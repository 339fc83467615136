"""Standard errors of differences between stretches of steps."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from groupwise.alarms.chance import error_without_change, standard_error


def test_the_standard_error_is_that_of_welch() -> None:
    assert standard_error([1.0, 2.0, 3.0], [4.0, 8.0]) == pytest.approx(math.sqrt(1 / 3 + 8 / 2))


def test_a_step_like_the_one_before_makes_it_larger() -> None:
    alternating, runs = [0.0, 1.0] * 8, ([0.0] * 4 + [1.0] * 4) * 2
    plain = standard_error(runs, runs)
    assert error_without_change(alternating) == pytest.approx(plain)
    correlation = (12 - 3) * 0.25 / (16 * 0.25)  # 12 pairs alike, 3 that differ
    assert error_without_change(runs) == pytest.approx(plain * math.sqrt((1 + correlation) / (1 - correlation)))
    assert error_without_change([0.5] * 16) == 0


@pytest.mark.parametrize(("correlation", "low", "high"), [(0.0, 0.9, 1.2), (0.5, 0.75, 1.1)])
def test_it_is_the_spread_of_differences_where_nothing_changes(correlation: float, low: float, high: float) -> None:
    """In simulation, over 800 pairs of 32 steps; correlated ones are known a little too well from so few."""
    draw = random.Random(0)
    differences, told = [], []
    for _ in range(800):
        value, values = draw.gauss(0, 1), []
        for _ in range(200):
            value = correlation * value + math.sqrt(1 - correlation**2) * draw.gauss(0, 1)
            values.append(value)
        differences.append(statistics.fmean(values[-32:]) - statistics.fmean(values[:32]))
        told.append(error_without_change(values[:32]))
    assert low <= statistics.fmean(told) / statistics.stdev(differences) <= high
