"""`groupwise.evaluate` with inputs as people bring them: torch's own default type, mistyped shapes, missing arrays."""

from __future__ import annotations

import math

import pytest
import torch

import groupwise
from groupwise.errors import DataError, NonFiniteLogprobError, RunFileError, UserError

ROWS = {"log_probs": [[-0.5, -1.2], [-1.0, -0.7]], "completion_mask": [[1, 1], [1, 0]]}


@pytest.fixture
def single_precision():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def test_sapo_is_float64_whatever_torchs_default_type_is(single_precision):
    """At ratio 1 the loss is 2 A / tau; 1.05 rounded to float32 shows in the eighth digit."""
    result = groupwise.evaluate("sapo", log_probs=[[-1.0]], advantages=[-1.0])
    assert math.isclose(result.loss, 2 / 1.05, rel_tol=1e-15)


@pytest.mark.parametrize("name", ["ppo", "rloo", "reinforce_pp"])
def test_given_advantages_need_no_reference_where_the_kl_stands_in_the_reward(name):
    arguments = ROWS | {"old_log_probs": [[-0.5, -1.3], [-1.0, -0.3]], "advantages": [1.0, -1.0]}
    with_default_beta, without = groupwise.evaluate(name, **arguments), groupwise.evaluate(name, **arguments, beta=0)
    assert with_default_beta.loss == without.loss
    assert not {"score_mean", "kl_per_completion", "frac_degenerate_groups"} & set(with_default_beta.metrics)


def test_a_pair_with_an_empty_side_is_refused():
    arguments = ROWS | {"completion_mask": [[1, 1], [0, 0]], "ref_log_probs": ROWS["log_probs"], "pair_ids": [0, 0]}
    with pytest.raises(DataError, match="pair 0 has a completion without a token"):
        groupwise.evaluate("dpo", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rewards": [[1], [0]]}, r"rewards is \[2, 1\]; give \[2\]"),
        ({"rewards": ["a", "b"]}, "rewards is no array of numbers"),
        ({"advantages": [[1.0], [0.0]]}, r"advantages is \[2, 1\]; give \[2\] or \[2, 2\]"),
        ({"advantages": 1.0}, r"advantages is \[\]; give \[2\] or \[2, 2\]"),
        ({"log_probs": [[-1.0, -2.0], [-1.0]]}, "log_probs is no array of numbers"),
        ({"log_probs": [-1.0, -2.0], "completion_mask": None}, "log_probs has 1 dimensions"),
        ({"log_probs": [[[-1.0]]], "completion_mask": None}, "log_probs has 3 dimensions"),
        ({"completion_mask": [[0.5, 1.0]] * 2}, "completion_mask has other numbers than 0 and 1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_one_line(arguments, message):
    with pytest.raises(UserError, match=message) as caught:
        groupwise.evaluate("grpo", **ROWS | {"advantages": [1.0, -1.0]} | arguments, beta=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"betta": 0}, "^grpo: betta is not a setting; did you mean 'beta'"),
        ({"beta": -1}, "^grpo: beta: .*; `groupwise explain grpo` says"),
        ({"correction": "tis"}, "^grpo: correction.kind: .*; `groupwise explain grpo` says"),
        ({"kl_estimator": "k1"}, "^grpo: kl_estimator 'k1' in the loss"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings, message):
    with pytest.raises(RunFileError, match=message):
        groupwise.evaluate("grpo", **ROWS, advantages=[1.0, -1.0], **settings)


def test_object_arrays_and_whole_numbers_are_read_as_float64():
    numpy = pytest.importorskip("numpy")
    mask = [[1, 1]] * 3
    missing = groupwise.evaluate("dr_grpo", completion_mask=mask, rewards=numpy.array([1, None, 0]), length_constant=2)
    assert missing.advantages[:, 0].tolist() == [0.5, 0.0, -0.5]
    assert groupwise.evaluate("sft", log_probs=torch.tensor([[-1, -2]])).loss == 1.5


@pytest.mark.parametrize("name", ["grpo", "rloo", "ppo", "vapo", "reinforce_pp", "reinforce_pp_baseline"])
def test_an_infinite_reward_is_named(name):
    arguments = ROWS | {"rewards": [math.inf, 0.0], "values": [[0.0, 0.0]] * 2, "correct": [1, 0]}
    with pytest.raises(NonFiniteLogprobError, match="the reward of completion 0 is inf"):
        groupwise.evaluate(name, **arguments, beta=0)
