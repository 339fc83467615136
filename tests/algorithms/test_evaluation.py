"""`groupwise.evaluate`: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import pytest
import torch
from algorithm_cases import F1, assert_close, f1_arrays

import groupwise
from groupwise.algorithms import DAPO, GRPO
from groupwise.errors import DataError, NonFiniteLogprobError, RunFileError, UserError


def test_lists_arrays_and_tensors_are_alike_and_lists_are_float64():
    numpy = pytest.importorskip("numpy")
    rows = f1_arrays() | {"advantages": F1["advantages"]}
    torch.set_default_dtype(torch.float32)
    try:
        lists = groupwise.evaluate("grpo", **rows)
        arrays = groupwise.evaluate("grpo", **{name: numpy.array(value) for name, value in rows.items()})
        single = groupwise.evaluate("grpo", **{name: torch.tensor(value) for name, value in rows.items()})
    finally:
        torch.set_default_dtype(torch.float64)
    assert lists.gradient.dtype == lists.weights.dtype == lists.advantages.dtype == torch.float64
    assert single.gradient.dtype == single.weights.dtype == torch.float32
    assert torch.equal(lists.gradient, arrays.gradient) and lists.loss == arrays.loss
    assert_close(single.gradient, lists.gradient, 1e-6)


def test_arrays_that_are_not_used_are_named():
    rows = f1_arrays() | {"rewards": [1.0, 0.0, 1.0, 0.0]}
    everything = rows | {"correct": [1, 0, 1, 0], "values": F1["logp"], "sampler_log_probs": F1["old_logp"]}
    assert groupwise.evaluate("grpo", **everything).unused == {"correct", "values", "sampler_log_probs"}
    assert groupwise.evaluate("grpo", **rows, beta=0).unused == {"ref_log_probs"}
    assert groupwise.evaluate("sft", **everything).unused >= {"rewards", "old_log_probs", "ref_log_probs", "correct"}
    given = groupwise.evaluate("grpo", **rows, advantages=F1["advantages"], group_ids=list("aabb"))
    assert given.unused == {"rewards", "group_ids"}
    corrected = groupwise.evaluate("grpo", **everything, correction="tis-token")
    assert corrected.unused == {"correct", "values"}
    assert groupwise.evaluate("rft", **everything, advantages=F1["advantages"]).unused >= {"advantages", "rewards"}


def test_given_advantages_are_used_as_they_are():
    rows = {"completion_mask": [[1, 1], [1, 1]], "advantages": [2.0, 2.0], "values": [[0.0, 0.0]] * 2}
    assert (groupwise.evaluate("ppo", **rows, beta=0).advantages == 2).all()
    dapo = groupwise.evaluate("dapo", completion_mask=rows["completion_mask"], advantages=[2.0, 2.0], correct=[1, 1])
    assert (dapo.coefficient == 2).all()


def test_groups_without_signal_leave_the_denominator():
    rows = {"completion_mask": [[1, 1]] * 4, "rewards": [1.0, -1.0, 1.0, 1.0], "group_ids": list("aabb")}
    result = groupwise.evaluate("dapo", **rows, correct=[True, False, True, True])
    assert result.weights.tolist() == [[0.25, 0.25]] * 2 + [[0.0, 0.0]] * 2
    kept = groupwise.evaluate("dapo", **rows, correct=[True, False, True, True], dynamic_sampling="off")
    assert kept.weights[0, 0] == 0.125


def test_a_critic_is_judged_and_trained():
    rows = {"completion_mask": [[1, 1]], "values": [[0.5, 0.25]], "rewards": [1.0]}
    result = groupwise.evaluate("vc_ppo", **rows)
    assert result.returns.tolist() == [[1.0, 1.0]]
    assert_close(result.value_loss, (0.25 + 0.5625) / 4)
    assert_close(result.value_gradient, [[-0.25, -0.375]])
    assert groupwise.evaluate("value_pretraining", **rows).gradient.tolist() == [[0.0, 0.0]]


def test_objects_do_as_well_as_names():
    rows = f1_arrays() | {"advantages": F1["advantages"]}
    assert groupwise.evaluate(GRPO(beta=0), **rows).loss == groupwise.evaluate("grpo", **rows, beta=0).loss
    with pytest.raises(RunFileError, match="settings beside an algorithm object"):
        groupwise.evaluate(DAPO(), **rows, clip_low=0.1)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("grop", {}, "no algorithm is called 'grop'"),
        ("grpo", {"betta": 1}, "did you mean 'beta'"),
        ("grpo", {"rewards": None, "beta": 0}, "give rewards=, or advantages="),
        ("grpo", {"ref_log_probs": None}, "grpo needs ref_log_probs"),
        ("grpo", {"rewards": [1.0]}, "rewards has 1 rows; give 4"),
        ("grpo", {"old_log_probs": [[1.0]]}, r"old_log_probs is \[1, 1\]; give \[4, 4\]"),
        ("ppo", {}, "ppo needs values"),
        ("dpo", {}, "dpo needs pair_ids"),
        ("dpo", {"pair_ids": [0, 0, 0, 1]}, "pair 0 has 3 completions"),
        ("rft", {}, "rft needs correct"),
        ("dr_grpo", {}, "set length_constant"),
        ("gspo", {"aggregation": "token-mean"}, "aggregation"),
        ("grpo", {"kl_estimator": "k1"}, "'k1' in the loss"),
        ("grpo", {"correction": "tis-token"}, "needs sampler_log_probs"),
        ("grpo", {"group_ids": list("abcd")}, "no baseline"),
        ("gspo", {"advantages": F1["logp"]}, "gspo needs one advantage per completion"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name, changes, message):
    rows = f1_arrays() | {"rewards": [1.0, 0.0, 1.0, 0.0]} | changes
    with pytest.raises(ValueError, match=message) as caught:
        groupwise.evaluate(name, **rows)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UserError) or name == "gspo"


def test_numbers_that_are_not_finite_are_errors():
    with pytest.raises(NonFiniteLogprobError):
        groupwise.evaluate("sft", log_probs=[[float("nan")]])
    with pytest.raises(NonFiniteLogprobError, match="values"):
        groupwise.evaluate("ppo", log_probs=[[-1.0]], values=[[float("inf")]], rewards=[1.0], beta=0)


def test_steps_must_be_in_order_and_inside():
    for ends in ([[2, 1]], [[5]], [[-1]], [[0, 1, 2]]):
        with pytest.raises(DataError, match="completion 0"):
            groupwise.evaluate(
                "grpo", log_probs=[[-1.0] * 3], step_rewards=[[1.0] * 2], step_ends=ends, supervision="process", beta=0,
                allow_singleton=True,
            )  # fmt: skip


def test_kl_in_the_reward_with_another_estimator_warns():
    with pytest.warns(UserWarning, match="k1 has the right one"):
        GRPO(kl_placement="reward")
