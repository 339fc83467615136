"""Signal of groups and rounds of dynamic sampling: closed forms, and the same numbers from draws."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from groupwise.errors import DataError, RunFileError, UserError
from groupwise.planning.signal import SIZES, Beta, GroupSignal, KnownRates, PassRates, group_signal, refilling

DRAWS = 40_000
MIXTURE = KnownRates((0.0, 0.02, 0.3, 0.3, 0.9, 1.0))
SKEWED = Beta(0.3, 1.2)


def draw(rates: PassRates, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pass rates of so many prompts."""
    if isinstance(rates, Beta):
        return rng.beta(rates.right, rates.wrong, count)
    assert isinstance(rates, KnownRates)
    return rng.choice(rates.values, count)


def assert_close(values: np.ndarray, expected: float) -> None:
    """The mean of draws is within four of its standard errors, of events as they are expected, for some are rare."""
    variance = expected * (1 - expected) if values.dtype == bool else values.var()
    assert abs(values.mean() - expected) <= 4 * math.sqrt(max(0, variance) / len(values)) + 1e-12


def at(rates: PassRates, size: int, prompts: int = 10) -> GroupSignal:
    (signal,) = group_signal(rates, prompts, [size])
    return signal


@pytest.mark.parametrize("size", SIZES)
def test_closed_forms_at_the_ends_and_in_the_middle(size: int) -> None:
    never, half, always = (at(KnownRates((rate,)), size) for rate in (0.0, 0.5, 1.0))
    assert (never.all_wrong, never.all_right, never.with_signal, never.baseline_error) == (1, 0, 0, 0)
    assert (always.all_wrong, always.all_right, always.with_signal, always.baseline_error) == (0, 1, 0, 0)
    assert half.with_signal == pytest.approx(1 - 2 ** (1 - size), abs=1e-15)
    assert half.effective_prompts == pytest.approx(10 * half.with_signal)
    assert half.baseline_error == pytest.approx(0.5 / math.sqrt(size))
    assert half.leave_one_out_error == pytest.approx(0.5 / math.sqrt(size - 1))


def test_the_share_is_the_mean_over_prompts_and_not_the_share_at_their_mean() -> None:
    assert at(KnownRates((0.0, 1.0)), 8).with_signal == 0
    assert at(KnownRates((0.5, 0.5)), 8).with_signal == pytest.approx(0.9921875)
    assert at(KnownRates((0.0, 0.5, 0.1)), 2).with_signal == pytest.approx((0 + 0.5 + 0.18) / 3)


def test_pass_rates_spread_evenly_give_signal_in_all_groups_but_two_of_g_plus_1() -> None:
    for signal in group_signal(Beta(1, 1), 100):
        assert signal.with_signal == pytest.approx(1 - 2 / (signal.size + 1))
        assert signal.baseline_error == pytest.approx(math.pi / 8 / math.sqrt(signal.size))  # the mean of sqrt(p (1-p))


@pytest.mark.parametrize("rates", [MIXTURE, SKEWED, Beta(40, 25)], ids=str)
@pytest.mark.parametrize("size", [2, 8, 32])
def test_groups_that_are_drawn_show_what_the_formulas_say(rates: PassRates, size: int) -> None:
    rng = np.random.default_rng(size)
    chances = draw(rates, DRAWS, rng)
    right = rng.binomial(size, chances)
    signal = at(rates, size)
    assert_close(right == size, signal.all_right)
    assert_close(right == 0, signal.all_wrong)
    assert_close((right > 0) & (right < size), signal.with_signal)
    assert signal.all_right + signal.all_wrong + signal.with_signal == pytest.approx(1)
    assert_close(np.sqrt(chances * (1 - chances) / size), signal.baseline_error)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_errors_are_those_of_the_two_baselines(rate: float) -> None:
    rng = np.random.default_rng(7)
    rewards = rng.random((DRAWS, 4)) < rate
    signal = at(KnownRates((rate,)), 4)
    assert_close((rewards.mean(1) - rate) ** 2, signal.baseline_error**2)
    assert_close((rewards[:, 1:].mean(1) - rate) ** 2, signal.leave_one_out_error**2)


def test_whole_exponents_are_the_chance_of_a_sequence() -> None:
    assert SKEWED.expected(1, 0) == pytest.approx(0.2)
    assert SKEWED.expected(2, 1) == pytest.approx(0.3 * 1.3 * 1.2 / (1.5 * 2.5 * 3.5))
    assert MIXTURE.expected(0, 0) == SKEWED.expected(0, 0) == 1


@pytest.mark.parametrize(("right", "wrong"), [(0.3, 1.2), (2.0, 2.0), (1.0, 20.0)])
def test_a_fit_recovers_the_distribution(right: float, wrong: float) -> None:
    rng = np.random.default_rng(3)
    sampled = rng.choice([4, 8, 16], 6000)
    counts = [
        (int(r), int(n)) for r, n in zip(rng.binomial(sampled, rng.beta(right, wrong, 6000)), sampled, strict=True)
    ]
    fitted = Beta.fit(counts)
    assert fitted.right == pytest.approx(right, rel=0.12)
    assert fitted.expected(1, 0) == pytest.approx(right / (right + wrong), rel=0.05)
    for true, found in zip(group_signal(Beta(right, wrong), 1), group_signal(fitted, 1), strict=True):
        assert found.with_signal == pytest.approx(true.with_signal, abs=0.015)


def log_likelihood(beta: Beta, counts: list[tuple[int, int]]) -> float:
    """Up to the binomial coefficients, which are the same for every Beta."""
    return sum(math.log(beta.expected(right, sampled - right)) for right, sampled in counts)


def test_no_other_beta_makes_the_counts_likelier() -> None:
    counts = [(0, 8), (0, 8), (1, 8), (3, 4), (5, 8), (2, 2), (8, 8), (0, 3)]
    fitted = Beta.fit(counts)
    best = log_likelihood(fitted, counts)
    for right, wrong in product((0.98, 1.0, 1.02), repeat=2):
        assert log_likelihood(Beta(fitted.right * right, fitted.wrong * wrong), counts) <= best + 1e-12
    for right, wrong in product((0.01, 0.1, 0.5, 2, 20), repeat=2):
        assert log_likelihood(Beta(right, wrong), counts) < best


def test_none_of_eight_is_not_taken_for_never() -> None:
    rng = np.random.default_rng(5)
    rights = rng.binomial(8, rng.beta(0.3, 1.2, 4000))
    as_measured = at(KnownRates(tuple(rights / 8)), 64).with_signal
    fitted = at(Beta.fit([(int(right), 8) for right in rights]), 64).with_signal
    truth = at(SKEWED, 64).with_signal
    assert as_measured < truth - 0.2
    assert fitted == pytest.approx(truth, abs=0.02)


def test_fits_at_the_two_ends() -> None:
    alike = Beta.fit([(4, 8)] * 20)
    assert at(alike, 8).with_signal == pytest.approx(at(KnownRates((0.5,)), 8).with_signal, abs=1e-4)
    apart = Beta.fit([(0, 8)] * 15 + [(8, 8)] * 5)
    assert apart.expected(1, 0) == pytest.approx(0.25, abs=0.001)
    assert at(apart, 64).with_signal < 0.005


def rounds_by_recursion(chance: Fraction, wanted: int, drawn: int, most: int) -> tuple[Fraction, Fraction, Fraction]:
    """Expected rounds, groups that are trained on, chance to end with too few: state by state, in fractions."""
    states = {0: Fraction(1)}
    rounds = Fraction(0)
    for _ in range(most):
        rounds += sum(states.values())
        following: dict[int, Fraction] = {}
        for kept, weight in states.items():
            for more in range(drawn + 1):
                ways = math.comb(drawn, more) * chance**more * (1 - chance) ** (drawn - more)
                following[kept + more] = following.get(kept + more, Fraction(0)) + weight * ways
        states = {kept: weight for kept, weight in following.items() if kept < wanted}
    short = sum(states.values())
    return rounds, wanted * (1 - short) + sum(kept * weight for kept, weight in states.items()), Fraction(short)


@pytest.mark.parametrize(("wanted", "drawn", "most"), [(1, 1, 7), (3, 1, 5), (3, 5, 2), (4, 4, 10), (5, 2, 3)])
def test_rounds_are_exact_however_few_prompts_a_round_draws(wanted: int, drawn: int, most: int) -> None:
    rounds, trained, exhausted = rounds_by_recursion(Fraction(3, 8), wanted, drawn, most)
    got = refilling(KnownRates((0.25,)), 2, wanted, drawn=drawn, max_rounds=most)  # 1 - 1/16 - 9/16 = 3/8
    assert got.rounds == pytest.approx(float(rounds))
    assert got.trained == pytest.approx(float(trained))
    assert got.exhausted == pytest.approx(float(exhausted))
    assert got.groups == pytest.approx(drawn * float(rounds))
    assert got.samples == pytest.approx(2 * drawn * float(rounds))


def test_rounds_that_are_drawn_show_the_same() -> None:
    rng = np.random.default_rng(11)
    size, wanted, drawn, most = 4, 16, 16, 3
    right = rng.binomial(size, draw(SKEWED, DRAWS * drawn * most, rng)).reshape(-1, most, drawn)
    kept = ((right > 0) & (right < size)).sum(2).cumsum(1)
    rounds = 1 + (kept[:, :-1] < wanted).sum(1)
    at_the_end = kept[np.arange(len(kept)), rounds - 1]
    got = refilling(SKEWED, size, wanted, max_rounds=most)
    assert_close(rounds, got.rounds)
    assert_close(np.minimum(at_the_end, wanted), got.trained)
    assert_close(np.maximum(at_the_end - wanted, 0), got.surplus)
    assert_close(kept[:, -1] < wanted, got.exhausted)
    assert 0.2 < got.exhausted < 0.8, "all ends of the loop are met"


def test_rounds_at_the_ends() -> None:
    nothing = refilling(KnownRates((0.0, 1.0)), 8, 64)
    assert (nothing.rounds, nothing.trained, nothing.surplus, nothing.exhausted) == (10, 0, 0, 1)
    assert nothing.samples == 10 * 64 * 8
    plenty = refilling(KnownRates((0.5,)), 64, 512, drawn=1536)
    assert (plenty.rounds, plenty.trained) == (pytest.approx(1), pytest.approx(512))
    assert plenty.surplus == pytest.approx(1024) and plenty.exhausted < 1e-12
    one_by_one = refilling(KnownRates((0.5,)), 2, 1, max_rounds=200)  # rounds until a fair coin shows heads
    assert one_by_one.rounds == pytest.approx(2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: group_signal(MIXTURE, 8, [8, 1]), RunFileError, "a group size of 1 .* 2 or more completions"),
        (lambda: refilling(MIXTURE, 1, 8), RunFileError, "a group size of 1 "),
        (lambda: group_signal(MIXTURE, 0), RunFileError, "prompts is 0; "),
        (lambda: refilling(MIXTURE, 8, 8, max_rounds=0), RunFileError, "max_rounds is 0; "),
        (lambda: KnownRates(()), DataError, "no pass rates"),
        (lambda: KnownRates((0.5, 1.2)), DataError, "pass rate 2 is 1.2; .* 0 to 1"),
        (lambda: KnownRates((math.nan,)), DataError, "pass rate 1 is nan"),
        (lambda: Beta(0, 1), DataError, "right = 0"),
        (lambda: Beta.fit([]), DataError, "no counts"),
        (lambda: Beta.fit([(1, 2), (9, 8)]), DataError, "prompt 2 has 9 right of 8"),
        (lambda: Beta.fit([(0, 0)]), DataError, "prompt 1 has 0 right of 0"),
        (lambda: Beta.fit([(0, 8), (0, 4)]), DataError, "all 12 completions are wrong, .* easier prompts"),
        (lambda: Beta.fit([(8, 8)]), DataError, "all 8 completions are right, .* harder prompts"),
        (lambda: Beta.fit([(0, 1), (1, 1)]), DataError, "one completion per prompt"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, error: type[UserError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
