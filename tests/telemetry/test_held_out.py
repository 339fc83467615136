"""Intervals of ratios, and how held-out numbers are shown."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from groupwise.statistics.intervals import mean_interval, ratio_interval
from groupwise.telemetry.display import ConsoleDisplay
from groupwise.telemetry.metrics import merged
from groupwise.types import Total


def test_with_equal_counts_it_is_the_interval_of_the_mean() -> None:
    values = [0.0, 1.0, 0.5, 1.0]
    expected = mean_interval(values)
    assert expected is not None
    assert ratio_interval([2 * value for value in values], [2] * 4) == pytest.approx(expected)
    assert ratio_interval([1.0], [1]) is None


def test_it_covers_the_ratio_about_as_often_as_it_says() -> None:
    """Clusters of one to five draws, alike within a cluster."""
    draws, covered = random.Random(1), 0
    for _ in range(400):
        totals, counts = [], []
        for _ in range(60):
            count, value = draws.randint(1, 5), float(draws.random() < 0.7)
            totals.append(count * value)
            counts.append(float(count))
        low, high = ratio_interval(totals, counts) or (1.0, 0.0)
        covered += low <= 0.7 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_totals_add_up_over_micro_batches() -> None:
    assert merged([{"value_loss": Total(0.5)}, {"value_loss": Total(0.25)}]) == {"value_loss": 0.75}


def test_an_evaluation_without_samples_shows_what_was_held_out() -> None:
    out = io.StringIO()
    display = ConsoleDisplay(Console(file=out, width=200))
    result = {
        "prompts": 0,
        "held_out": {"loss": 0.5, "pair_accuracy": 0.75, "margin": 1.0},
        "held_out_interval": {"pair_accuracy": [0.6, 0.9]},
        "held_out_groups": 8,
    }
    display.evaluation({"step": 3, "eval": result})
    assert out.getvalue() == (
        "evaluation at step 3: held out: loss 0.500, pair_accuracy 0.750 [0.600, 0.900] on 8 groups\n"
    )
