"""Properties of group advantages, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from groupwise.core.advantages import (
    STD_PRESETS,
    TIE_TOL,
    NamedStdSpec,
    StdSpec,
    degenerate_groups,
    group_advantages,
)
from groupwise.errors import NonFiniteLogprobError

EXACT = STD_PRESETS["exact"]
REWARDS = st.lists(st.integers(-40, 40).map(lambda value: value / 8), min_size=2, max_size=12)
many = settings(max_examples=60)


def of(rewards, std=EXACT, **options):
    rewards = torch.as_tensor(rewards, dtype=torch.float64)
    return group_advantages(rewards, torch.zeros(len(rewards), dtype=torch.int64), 1, std, **options).advantages


def close(actual, expected, tol=1e-9):
    return torch.allclose(actual, expected, rtol=tol, atol=tol)


def spread(rewards):
    return max(rewards) - min(rewards) > 2 * TIE_TOL * (max(map(abs, rewards)) + 1000)


@many
@given(rewards=REWARDS, shift=st.floats(-1e3, 1e3))
def test_shift_changes_nothing(rewards, shift):
    assume(spread(rewards))
    shifted = [reward + shift for reward in rewards]
    for std in STD_PRESETS.values():
        for options in ({}, {"scale": "none"}, {"scale": "none", "baseline": "leave-one-out"}):
            assert close(of(shifted, std, **options), of(rewards, std, **options), 1e-8)


@many
@given(rewards=REWARDS, factor=st.floats(1e-3, 1e3))
def test_scale_changes_nothing_without_eps(rewards, factor):
    assert close(of([reward * factor for reward in rewards]), of(rewards))
    centred = of([reward * factor for reward in rewards], scale="none")
    assert close(centred, factor * of(rewards, scale="none"))


@many
@given(rewards=REWARDS, data=st.data())
def test_order_changes_nothing(rewards, data):
    order = data.draw(st.permutations(range(len(rewards))))
    assert close(of([rewards[i] for i in order]), of(rewards)[list(order)])


@many
@given(rewards=REWARDS)
def test_advantages_sum_to_zero_and_are_bounded(rewards):
    for std in STD_PRESETS.values():
        if std.kind == "leave-one-out":  # every completion has a divisor of its own
            continue
        for options in (
            {},
            {"scale": "batch"},
            {"scale": "none"},
            {"scale": "none", "baseline": "leave-one-out"},
        ):
            assert abs(of(rewards, std, **options).sum()) < 1e-9
    bound = math.sqrt(len(rewards) - 1) + 1e-9
    for std in (EXACT, STD_PRESETS["seed-formula"]):
        assert (of(rewards, std).abs() <= bound).all()


def test_the_bound_is_reached():
    assert of([1.0] + [0.0] * 8)[0].item() == pytest.approx(math.sqrt(8), abs=1e-12)


@many
@given(rewards=REWARDS)
def test_leave_one_out_is_the_centred_advantage_times_g_over_g_minus_one(rewards):
    size = len(rewards)
    centred = of(rewards, scale="none")
    left_out = of(rewards, scale="none", baseline="leave-one-out")
    assert close(left_out, centred * size / (size - 1))
    for i, reward in enumerate(rewards):
        others = [other for j, other in enumerate(rewards) if j != i]
        assert left_out[i].item() == pytest.approx(reward - sum(others) / (size - 1), abs=1e-9)


@many
@given(rewards=REWARDS, missing=st.integers(1, 4))
def test_what_is_not_scored_changes_nothing_for_the_others(rewards, missing):
    for options in ({}, {"scale": "batch"}, {"scale": "none", "baseline": "leave-one-out"}):
        result = of([float("nan")] * missing + rewards, **options)
        assert (result[:missing] == 0).all()
        assert close(result[missing:], of(rewards, **options))


def test_groups_do_not_see_each_other():
    rewards = torch.tensor([1.0, 0.0, 5.0, 2.0, 2.0, 7.0])
    index = torch.tensor([0, 0, 1, 2, 2, 1])
    result = group_advantages(rewards, index, 3, EXACT)
    assert result.advantages.tolist() == [1, -1, -1, 0, 0, 1]
    assert result.degenerate.tolist() == [False, False, True]
    assert result.advantages.dtype == torch.float64


def test_batch_scale_divides_by_the_std_of_all_raw_rewards():
    rewards = torch.tensor([1.0, 0.0, 4.0, 4.0])
    result = group_advantages(rewards, torch.tensor([0, 0, 1, 1]), 2, EXACT, "batch").advantages
    std = rewards.double().std(correction=0)
    assert close(result, torch.tensor([0.5, -0.5, 0, 0], dtype=torch.float64) / std)


def test_statistics_are_float64_whatever_the_type_of_the_rewards():
    rewards, index = 1000 + torch.arange(9).sqrt(), torch.zeros(9, dtype=torch.int64)
    single, double = (group_advantages(values, index, 1).advantages for values in (rewards, rewards.double()))
    assert single.dtype == torch.float64 and torch.equal(single, double)


def test_a_tie_is_relative_and_can_be_switched_off():
    near = torch.tensor([1e6, 1e6 + 0.5], dtype=torch.float64)
    index = torch.zeros(2, dtype=torch.int64)
    assert degenerate_groups(near, index, 1).tolist() == [True]
    assert degenerate_groups(near * 1e-9, index, 1).tolist() == [True]
    assert degenerate_groups(near, index, 1, tie_tol=0).tolist() == [False]
    assert of(near, tie_tol=0.0).tolist() == pytest.approx([-1, 1])


@pytest.mark.parametrize("bad", [float("inf"), float("-inf")])
def test_infinite_reward_is_an_error(bad):
    with pytest.raises(NonFiniteLogprobError, match="reward of completion 1"):
        of([0.0, bad, float("nan")])


def test_rewards_with_a_gradient_are_detached():
    rewards = torch.tensor([1.0, 0.0], requires_grad=True)
    assert not group_advantages(rewards, torch.zeros(2).long(), 1).advantages.requires_grad


def test_std_by_name_or_by_table():
    adapter = TypeAdapter(NamedStdSpec)
    assert adapter.validate_python("trl") == StdSpec(kind="sample", eps=1e-4, place="outside")
    assert adapter.validate_python({"kind": "sample"}) == StdSpec(kind="sample")
    with pytest.raises(ValidationError, match="did you mean 'openrlhf'"):
        adapter.validate_python("openrhlf")
    with pytest.raises(ValidationError, match="use one of seed-formula"):
        adapter.validate_python("?")
    with pytest.raises(ValidationError):
        adapter.validate_python({"eps": -1})
