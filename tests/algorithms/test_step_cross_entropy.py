"""The loss of process reward models: labelled steps alone, at their last tokens."""

from __future__ import annotations

import math

import pytest
import torch
from algorithm_cases import assert_close, random_step
from hypothesis import given, settings
from hypothesis import strategies as st

import groupwise
from groupwise.algorithms import ProcessRewardModel
from groupwise.core.process_rewards import scored_steps
from groupwise.core.rows import pack_rows, pack_values
from groupwise.errors import DataError
from groupwise.packing import take

MASK = [[1, 1, 1, 1], [1, 1, 0, 0]]
VALUES = [[2.0, 7.0, -1.0, 7.0], [7.0, 0.5, 7.0, 7.0]]
LABELS, ENDS = [[1, None, 0], [0]], [[0, 1, 2], [1]]
few = settings(max_examples=15)


def judged(**changes):
    given = {"completion_mask": MASK, "values": VALUES, "step_rewards": LABELS, "step_ends": ENDS}
    return groupwise.evaluate("process_reward_model", **{**given, **changes})


def test_the_loss_is_cross_entropy_at_the_last_tokens_of_labelled_steps() -> None:
    result = judged()
    losses = [math.log1p(math.exp(x)) for x in (-2.0, -1.0, 0.5)]
    assert result.value_loss == pytest.approx(sum(losses) / 3, abs=1e-12)
    gradient = torch.zeros(2, 4, dtype=torch.float64)
    for (row, place), value, label in (((0, 0), 2.0, 1), ((0, 2), -1.0, 0), ((1, 1), 0.5, 0)):
        gradient[row, place] = (1 / (1 + math.exp(-value)) - label) / 3
    assert_close(result.value_gradient, gradient)
    assert result.loss == 0 and not result.gradient.any()
    names = ("step_accuracy", "right_step_accuracy", "wrong_step_accuracy", "step_label_mean")
    assert [result.metrics[name] for name in names] == pytest.approx([2 / 3, 1, 1 / 2, 1 / 3])


def test_R096_a_step_without_a_label_is_never_judged() -> None:
    without = judged(step_rewards=[[1, 0], [0]], step_ends=[[0, 2], [1]])
    assert judged().value_loss == without.value_loss
    assert judged(values=[[2.0, -7.0, -1.0, 7.0], VALUES[1]]).value_loss == without.value_loss
    nothing = judged(step_rewards=[[None, None, None], [0]])
    assert nothing.metrics["step_label_mean"] == 0 and not nothing.value_gradient[0].any()


def test_labels_may_be_chances() -> None:
    result = judged(step_rewards=[[0.25, None, None], [None]])
    assert result.value_loss == pytest.approx(0.25 * math.log1p(math.exp(-2)) + 0.75 * math.log1p(math.exp(2)))


def test_where_steps_share_a_token_the_lowest_label_holds() -> None:
    assert judged(step_rewards=[[1, 0, 1], [0]], step_ends=[[0, 0, 2], [1]]).value_loss == (
        judged(step_rewards=[[0, 1], [0]], step_ends=[[0, 2], [1]]).value_loss
    )


def test_a_step_outside_its_completion_is_refused() -> None:
    with pytest.raises(DataError, match="completion 1 has 2 tokens and steps that end at"):
        judged(step_ends=[[0, 1, 2], [2]])


@few
@given(seed=st.integers(0, 2**31))
def test_the_step_may_be_cut_anywhere_and_nothing_else_is_read(seed: int) -> None:
    step, algorithm = random_step(seed, whole=True), ProcessRewardModel()
    batch = algorithm.weigh(algorithm.credit(step.batch()))
    assert batch.loss_mask.sum() == len(scored_steps(step.batch()).tokens.unique())
    flat = pack_values(step.values, step.mask).double()
    whole, cut = (flat.clone().requires_grad_() for _ in range(2))
    total = algorithm.loss(batch, torch.zeros_like(flat), whole).value
    assert total is not None
    total.backward()
    poisoned = torch.where(batch.loss_mask, cut, torch.nan)
    parts = []
    for completion in range(len(step.mask)):
        tokens = batch.completion_index == completion
        parts.append(algorithm.loss(take(batch, [completion]), torch.zeros(int(tokens.sum())), poisoned[tokens]).value)
    torch.stack(parts).sum().backward()
    assert_close(torch.stack(parts).sum().detach(), total.detach())
    assert_close(cut.grad, whole.grad)


def test_a_completion_without_labels_needs_no_pass() -> None:
    algorithm = ProcessRewardModel()
    batch = algorithm.credit(pack_rows(MASK, rewards=[0.0, 0.0], step_rewards=[[None], [1]], step_ends=[[3], [0]]))
    assert algorithm.signal(algorithm.weigh(batch)).tolist() == [False, True]
