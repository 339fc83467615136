"""pass@k and maj@k against counting every choice of k samples."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations

import pytest

from groupwise.statistics.sampling import majority_at_k, pass_at_k


@pytest.mark.parametrize("samples", range(1, 9))
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(samples: int) -> None:
    for right in range(samples + 1):
        verdicts = [sample < right for sample in range(samples)]
        for k in range(1, samples + 1):
            choices = list(combinations(verdicts, k))
            expected = Fraction(sum(any(choice) for choice in choices), len(choices))
            assert pass_at_k(samples, right, k) == pytest.approx(float(expected), abs=1e-12)


def test_pass_at_k_of_many_samples() -> None:
    assert pass_at_k(1000, 10, 1) == pytest.approx(0.01)
    assert pass_at_k(1000, 1, 500) == pytest.approx(0.5)
    assert pass_at_k(1000, 501, 500) == 1.0


def voted(answers: tuple[str | None, ...], right: set[str]) -> Fraction:
    """The share of right ones among the answers given most often."""
    given = [answer for answer in answers if answer is not None]
    most = max((given.count(answer) for answer in given), default=0)
    leaders = {answer for answer in given if given.count(answer) == most}
    return Fraction(len(leaders & right), len(leaders)) if leaders else Fraction(0)


@pytest.mark.parametrize("seed", range(30))
def test_majority_at_k_is_the_mean_over_all_choices(seed: int) -> None:
    draw = random.Random(seed)
    answers = [draw.choice(["7", "8", "9", "10", None]) for _ in range(draw.randint(1, 9))]
    right = {"7"} if draw.random() < 0.7 else {"7", "9"}
    for k in range(1, len(answers) + 1):
        choices = list(combinations(answers, k))
        expected = sum(voted(choice, right) for choice in choices) / len(choices)
        assert majority_at_k(answers, right, k) == pytest.approx(float(expected), abs=1e-12)


def test_ties_are_split_evenly_whatever_the_order() -> None:
    assert majority_at_k(["7", "8"], {"7"}, 2) == majority_at_k(["8", "7"], {"7"}, 2) == 0.5
    assert majority_at_k(["7", "8", "9"], {"7"}, 3) == pytest.approx(1 / 3)
    assert majority_at_k(["7", "8", None, "8"], {"7"}, 4) == 0.0
    assert majority_at_k([None, None], {"7"}, 2) == 0.0


def test_majority_of_many_samples() -> None:
    """Of 64 samples 40 % are right and no wrong answer is given twice: the larger the vote, the surer."""
    answers = ["right"] * 26 + [f"wrong {number}" for number in range(38)]
    shares = [majority_at_k(answers, {"right"}, k) for k in (1, 4, 8, 16, 64)]
    assert shares[0] == pytest.approx(26 / 64)
    assert shares == sorted(shares) and shares[-1] == 1.0
    half = ["right"] * 300 + ["wrong"] * 300
    assert majority_at_k(half, {"right"}, 300) == pytest.approx(0.5)
