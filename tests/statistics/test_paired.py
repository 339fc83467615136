"""Two checkpoints on the same prompts: values, size under the null, and power beside the unpaired test."""

from __future__ import annotations

import numpy as np
import pytest

from groupwise.statistics.paired import Paired, paired
from groupwise.statistics.student import two_sided


def by_prompt(values: np.ndarray) -> dict[str, float]:
    return {str(prompt): float(value) for prompt, value in enumerate(values)}


def compared(before: np.ndarray, after: np.ndarray) -> Paired:
    found = paired(by_prompt(before), by_prompt(after), shares=True)
    assert found is not None
    return found


def test_known_values() -> None:
    """Student's sleep data: ten patients, two drugs; t = 4.0621, p = 0.002833, interval [0.700, 2.460]."""
    one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    two = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired(by_prompt(np.array(one)), by_prompt(np.array(two)))
    assert found is not None and found.interval is not None
    assert found.difference == pytest.approx(1.58)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert found.interval == pytest.approx((0.7001, 2.4599), abs=1e-4)
    assert (found.prompts, found.better, found.worse) == (10, 9, 0)


def test_order_of_prompts_is_nothing_and_others_are_left_out() -> None:
    before, after = {"a": 0.0, "b": 0.5, "c": 1.0, "only": 1.0}, {"c": 1.0, "b": 1.0, "a": 0.25, "new": 0.0}
    assert paired(before, after) == paired(dict(reversed(before.items())), after)
    found = paired(before, after)
    assert found is not None and (found.prompts, found.difference) == (3, 0.25)
    assert paired({"a": 1.0}, {"b": 1.0}) is None
    alone = paired({"a": 0.0}, {"a": 1.0})
    assert alone is not None and alone.p is None and alone.interval is None


def test_prompts_that_all_differ_alike_prove_no_more_than_their_number() -> None:
    none, all_up = compared(np.zeros(20), np.zeros(20)), compared(np.zeros(4), np.ones(4))
    assert (none.difference, none.p) == (0.0, 1.0)
    assert none.interval == pytest.approx((-0.337, 0.337), abs=1e-3)
    assert (all_up.difference, all_up.p) == (1.0, 0.125)
    assert all_up.interval is not None and all_up.interval[0] < 0 < all_up.interval[1] == 1


def test_interval_and_p_agree() -> None:
    draw = np.random.default_rng(1)
    for _ in range(200):
        found = compared(draw.binomial(4, 0.4, 30) / 4, draw.binomial(4, 0.5, 30) / 4)
        assert found.interval is not None and found.p is not None
        assert (found.interval[0] > 0 or found.interval[1] < 0) == (found.p < 0.05)


@pytest.mark.parametrize("prompts", [20, 100])
def test_equal_checkpoints_differ_in_five_of_hundred_cases(prompts: int) -> None:
    draw, rejected = np.random.default_rng(prompts), []
    for a, b, completions in [(0.5, 0.5, 4), (2.0, 2.0, 1), (0.3, 2.7, 16)]:
        rates = draw.beta(a, b, (1000, prompts))
        before, after = (draw.binomial(completions, rates) / completions for _ in range(2))
        ps = [compared(*pair).p for pair in zip(before, after, strict=True)]
        rejected.append(np.mean([p is not None and p < 0.05 for p in ps]).item())
    noise = 2.5 * (0.05 * 0.95 / 1000) ** 0.5
    assert max(rejected) <= 0.05 + noise and 0.035 <= sum(rejected) / len(rejected) <= 0.06


def test_more_power_than_two_separate_samples() -> None:
    """Prompts of all difficulties, each a little better after; Welch's test forgets which is which."""
    draw, paired_found, unpaired_found = np.random.default_rng(5), 0, 0
    rates = draw.beta(0.5, 0.5, (400, 60))
    before, after = draw.binomial(8, rates) / 8, draw.binomial(8, rates + 0.15 * (1 - rates)) / 8
    for one, two in zip(before, after, strict=True):
        p = compared(one, two).p
        paired_found += p is not None and p < 0.05
        t = (two.mean() - one.mean()) / ((one.var(ddof=1) + two.var(ddof=1)) / 60) ** 0.5
        unpaired_found += two_sided(float(t), 118) < 0.05
    assert paired_found / 400 > unpaired_found / 400 + 0.5
