"""Tokens drawn from logits follow the distribution whose log-probs are reported."""

import math

import pytest
import torch

from groupwise.engines.sampling import BLOCK, draw


def grid(points):
    """Evenly spaced numbers in [0, 1): the counts they give are the probabilities to within one."""
    return (torch.arange(points, dtype=torch.float64) + 0.5) / points


def draw_grid(logits, temperature, points):
    rows = logits.expand(points, -1)
    return draw(rows, torch.full((points,), temperature), grid(points))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("vocabulary", [7, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_counts_over_a_grid_of_numbers_are_the_probabilities(vocabulary, temperature):
    logits = 3 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(8))
    points = 20_000
    tokens, log_probs = draw_grid(logits, temperature, points)
    expected = (logits.double() / temperature).log_softmax(-1)
    counts = torch.bincount(tokens, minlength=vocabulary)
    assert len(counts) == vocabulary
    assert ((counts - expected.exp() * points).abs() <= 1 + 1e-3).all()
    torch.testing.assert_close(log_probs.double(), expected[tokens], rtol=0, atol=1e-5)


def test_R002_the_log_prob_is_that_of_logits_over_temperature():
    tokens, log_probs = draw(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0.5]), torch.tensor([0.1]).double())
    assert tokens.tolist() == [0] and log_probs.item() == pytest.approx(-math.log1p(2 * math.exp(-4)), abs=1e-6)
    assert round(log_probs.item(), 4) == -0.0360


@pytest.mark.parametrize("vocabulary", [5, 2 * BLOCK + 3])
@pytest.mark.parametrize("impossible", ["first", "last", "all but one"])
def test_a_token_of_probability_zero_is_never_drawn(vocabulary, impossible):
    logits = torch.zeros(vocabulary)
    if impossible == "first":
        logits[: vocabulary // 2] = -math.inf
    elif impossible == "last":
        logits[vocabulary // 2 :] = -math.inf
    else:
        logits[torch.arange(vocabulary) != vocabulary // 2] = -math.inf
    extremes = torch.cat([torch.tensor([0.0, 5e-324, 1 - 2**-53], dtype=torch.float64), grid(500)])
    rows = logits.expand(len(extremes), -1)
    tokens, log_probs = draw(rows, torch.ones(len(extremes)), extremes)
    assert (logits[tokens] == 0).all() and log_probs.isfinite().all()
    assert set(tokens.tolist()) >= {int(logits.argmax()), vocabulary - 1 - int(logits.flip(0).argmax())}


def test_a_row_does_not_depend_on_the_others():
    generator = torch.Generator().manual_seed(9)
    logits = torch.randn(6, 300, generator=generator)
    temperatures, numbers = torch.tensor([0.3, 1.0, 0.0, 2.0, 1.0, 0.7]), grid(6)
    tokens, log_probs = draw(logits, temperatures, numbers)
    for row in range(6):
        one = slice(row, row + 1)
        token, log_prob = draw(logits[one], temperatures[one], numbers[one])
        assert token == tokens[row] and log_prob == log_probs[row]


def test_temperature_zero_takes_the_likeliest_token_and_nothing_is_drawn():
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    tokens, log_probs = draw(logits, torch.tensor([0.0, 1.0]), torch.tensor([0.999, 0.999]).double())
    assert tokens.tolist() == [1, 2] and log_probs[0] == 0 and log_probs[1] < 0


def test_logits_far_from_zero_overflow_nothing():
    tokens, log_probs = draw(torch.tensor([[1e4, -1e4, 0.0]]), torch.tensor([0.5]), torch.tensor([0.7]).double())
    assert tokens.tolist() == [0] and log_probs.tolist() == [0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_give_a_token_of_the_vocabulary_and_a_log_prob_that_tells(bad):
    logits = torch.zeros(2, 300)
    logits[0, 5] = bad
    tokens, log_probs = draw(logits, torch.ones(2), grid(2))
    assert ((tokens >= 0) & (tokens < 300)).all() and log_probs[0].isnan() and log_probs[1].isfinite()
