"""The loss of reward models: by hand, by autograd, and however a step is cut."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from algorithm_cases import assert_close, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

import groupwise
from groupwise.algorithms import BradleyTerry
from groupwise.core.rows import pack_rows, pack_values
from groupwise.errors import DataError, NonFiniteLogprobError
from groupwise.packing import take

MASK = [[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]]
VALUES = [[9.0, 9.0, 1.0], [9.0, -0.5, 9.0], [0.25, 9.0, 9.0], [9.0, 9.0, 0.75]]
"""Scores after the last tokens: 1 against -0.5, and 0.25 against 0.75."""
PAIRS = ["a", "a", "b", "b"]
few = settings(max_examples=15)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def test_the_loss_is_that_of_bradley_and_terry_on_last_tokens() -> None:
    result = groupwise.evaluate("reward_model", completion_mask=MASK, values=VALUES, pair_ids=PAIRS)
    assert result.value_loss == pytest.approx((softplus(-1.5) + softplus(0.5)) / 2, abs=1e-12)
    first, second = (1 / (1 + math.exp(x)) / 2 for x in (1.5, -0.5))
    gradient = torch.zeros(4, 3, dtype=torch.float64)
    gradient[0, 2], gradient[1, 1], gradient[2, 0], gradient[3, 2] = -first, first, -second, second
    assert_close(result.value_gradient, gradient)
    assert result.loss == 0 and not result.gradient.any()
    metrics = {name: result.metrics[name] for name in ("pair_accuracy", "margin", "chosen_score", "rejected_score")}
    assert metrics == {"pair_accuracy": 0.5, "margin": 0.5, "chosen_score": 0.625, "rejected_score": 0.125}
    assert (result.metrics["chosen_length"], result.metrics["rejected_length"]) == (2, 2.5)


def test_centring_adds_the_squared_sum_of_a_pair() -> None:
    plain = groupwise.evaluate("reward_model", completion_mask=MASK, values=VALUES, pair_ids=PAIRS)
    centred = groupwise.evaluate("reward_model", completion_mask=MASK, values=VALUES, pair_ids=PAIRS, centring=0.01)
    assert centred.value_loss - plain.value_loss == pytest.approx(0.01 * (0.5**2 + 1.0**2) / 2, abs=1e-12)


def test_a_tie_is_half_a_pair_and_has_the_loss_of_a_coin() -> None:
    values = torch.zeros(2, 3)
    result = groupwise.evaluate("reward_model", completion_mask=MASK[:2], values=values, pair_ids=["a", "a"])
    assert result.metrics["pair_accuracy"] == 0.5
    assert result.value_loss == pytest.approx(math.log(2), abs=1e-6)


def test_sides_are_told_by_order_wherever_the_pairs_stand() -> None:
    """Completions of several pairs between each other, as rows may come."""
    mixed = groupwise.evaluate(
        "reward_model",
        completion_mask=[MASK[i] for i in (2, 0, 3, 1)],
        values=[VALUES[i] for i in (2, 0, 3, 1)],
        pair_ids=[PAIRS[i] for i in (2, 0, 3, 1)],
    )
    plain = groupwise.evaluate("reward_model", completion_mask=MASK, values=VALUES, pair_ids=PAIRS)
    assert mixed.value_loss == pytest.approx(plain.value_loss)
    assert_close(mixed.value_gradient, plain.value_gradient[[2, 0, 3, 1]])


@few
@given(seed=st.integers(0, 2**31))
def test_the_step_may_be_cut_between_pairs_and_nothing_else_is_read(seed: int) -> None:
    step, algorithm = random_step(seed, pairs=True), BradleyTerry(centring=0.1)
    batch = algorithm.weigh(algorithm.credit(step.batch()))
    assert batch.loss_mask.sum() == len(step.mask)
    flat = pack_values(step.values, step.mask).double()
    whole, cut = (flat.clone().requires_grad_() for _ in range(2))
    log_probs = torch.zeros_like(flat)
    total = algorithm.loss(batch, log_probs, whole).value
    assert total is not None
    total.backward()
    poisoned = torch.where(batch.loss_mask, cut, torch.nan)
    parts = []
    for group in range(len(batch.group_ids)):
        chosen = [n for n, owner in enumerate(batch.group_index.tolist()) if owner == group]
        tokens = torch.isin(batch.completion_index, torch.tensor(chosen))
        parts.append(algorithm.loss(take(batch, chosen), log_probs[tokens], poisoned[tokens]).value)
    torch.stack(parts).sum().backward()
    assert_close(torch.stack(parts).sum().detach(), total.detach())
    assert_close(cut.grad, whole.grad)
    assert (whole.grad[~batch.loss_mask] == 0).all()


def test_what_is_no_pair_or_no_number_is_refused() -> None:
    algorithm = BradleyTerry()
    with pytest.raises(DataError, match="has 3 completions; give a chosen and a rejected one"):
        algorithm.credit(pack_rows([[1], [1], [1]], group_ids=["a", "a", "a"]))
    with pytest.raises(DataError, match="pair a has a completion without a token"):
        algorithm.credit(pack_rows([[1], [0]], group_ids=["a", "a"]))
    batch = algorithm.weigh(algorithm.credit(pack_rows([[1], [1]], group_ids=["a", "a"])))
    with pytest.raises(NonFiniteLogprobError, match="values is nan"):
        algorithm.loss(batch, torch.zeros(2), torch.tensor([0.0, torch.nan]))


def test_weights_are_a_mean_over_pairs_of_all_ranks() -> None:
    algorithm = BradleyTerry()
    batch = algorithm.credit(pack_rows(MASK, group_ids=PAIRS))
    both = algorithm.weigh(batch, lambda counts: 2 * counts)
    assert both.token_weights is not None
    assert_close(both.token_weights[both.loss_mask], torch.full((4,), 1 / 4))
    assert algorithm.weigh(replace(batch)).token_weights.sum() == 2
