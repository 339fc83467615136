"""Rewards of steps to advantages of tokens: the options, and what is refused."""

from __future__ import annotations

import pytest
import torch

from groupwise.core.advantages import STD_PRESETS
from groupwise.core.process_rewards import process_advantages, scored_steps
from groupwise.core.rows import pack_rows, unpack_rows
from groupwise.errors import DataError

MASK = [[1, 1, 1, 1], [1, 0, 1, 0]]
EXACT = STD_PRESETS["exact"]


def advantages(step_rewards, step_ends, rewards=None, **options):
    batch = pack_rows(MASK, step_rewards=step_rewards, step_ends=step_ends, rewards=rewards)
    result = process_advantages(batch, EXACT, **options)
    return unpack_rows(result.advantages, MASK), result.degenerate


def test_steps_add_up_towards_the_start():
    result, degenerate = advantages([[2.0, 0.0], [1.0]], [[1, 2], [1]])
    spread = (2 / 3) ** 0.5
    expected = torch.tensor([[0.0, 0.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64) / spread
    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)
    assert result[0, 3] == 0 and degenerate.tolist() == [False]


def test_a_step_that_ends_on_a_masked_token_still_reaches_those_before():
    result, _ = advantages([[0.0], [1.0]], [[3], [1]])
    assert result[1, :3].tolist() == [1, 1, 0]


def test_steps_without_a_reward_are_left_out():
    with_none, _ = advantages([[1.0, None], [0.0, float("nan")]], [[0, 3], [0, 2]])
    without, _ = advantages([[1.0], [0.0]], [[0], [0]])
    assert torch.equal(with_none, without)


def test_two_steps_may_end_on_one_token():
    result, _ = advantages([[1.0, 1.0], [0.0, 0.0]], [[3, 3], [2, 2]])
    assert result[0].tolist() == [2, 2, 2, 2] and result[1, :3].tolist() == [-2, -2, -2]


def test_the_last_step_may_be_carried_on():
    result, _ = advantages([[0.0, 1.0], [0.0]], [[0, 1], [0]], after_last_step="carry")
    zero, _ = advantages([[0.0, 1.0], [0.0]], [[0, 1], [0]])
    assert (result[0, 2:] == zero[0, 1]).all() and (zero[0, 2:] == 0).all()
    assert torch.equal(result[0, :2], zero[0, :2])


def test_the_outcome_may_count_as_a_step():
    result, _ = advantages([None, None], [None, None], rewards=[1.0, 0.0], outcome_as_step=True)
    assert result[0].tolist() == [1] * 4 and result[1, :3].tolist() == [-1] * 3
    steps = scored_steps(pack_rows(MASK, rewards=[1.0, None]), outcome_as_step=True)
    assert steps.owners.tolist() == [0] and steps.tokens.tolist() == [3]


def test_statistics_over_completions_weigh_each_once():
    result, _ = advantages([[1.0, 1.0, 1.0], [0.0]], [[0, 1, 3], [2]], statistics="completions")
    assert result[0].tolist() == [3, 2, 1, 1] and result[1, :3].tolist() == [-1, -1, -1]


def test_ties_and_lone_steps_give_exactly_nothing():
    for rewards, ends in (([[0.1, 0.1], [0.1]], [[0, 1], [0]]), ([[0.7], None], [[1], None])):
        result, degenerate = advantages(rewards, ends)
        assert (result == 0).all() and degenerate.tolist() == [True]


@pytest.mark.parametrize(
    ("rewards", "ends"), [([[1.0]], [[4]]), ([[1.0]], [[-1]]), ([[1.0, 1.0]], [[2, 1]]), ([[1.0]], [[1, 2]])]
)
def test_impossible_steps_are_refused(rewards, ends):
    with pytest.raises(DataError, match="completion 0"):
        advantages([*rewards, None], [*ends, None])
