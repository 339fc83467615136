"""Faults that users of other systems reported, by the id of the report; each must be impossible here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from algorithm_cases import ALGORITHMS, Step, assert_close, joined, prepare, random_step, run, run_parts, tensor

from groupwise.algorithms import GRPO, SFT
from groupwise.core.advantages import degenerate_groups, group_advantages
from groupwise.core.rows import unpack_rows
from groupwise.models.log_probs import Head, token_log_probs


def test_R001_loss_does_not_depend_on_the_cut():
    mask = torch.arange(6) < tensor([2, 6])[:, None]
    log_probs = torch.tensor([[-1.0] * 6, [-3.0] * 6])
    step = Step(mask, log_probs)
    assert run(SFT(), step).loss == pytest.approx(2.5)
    for parts in ([[0, 1]], [[0], [1]]):
        assert run_parts(SFT(), step, parts)[0].item() == pytest.approx(2.5)


@pytest.mark.parametrize("name", [name for name, case in ALGORITHMS.items() if not case.needs.couples_groups])
def test_R001_window_larger_than_a_rollout_has_one_denominator(name):
    """Two rollout steps in one optimiser step: micro-batches of any size give the same gradient."""
    first, second = random_step(1), random_step(2)
    window = joined(
        replace(first, groups=[f"first {id}" for id in first.groups]),
        replace(second, groups=[f"second {id}" for id in second.groups]),
    )
    count = len(window.groups)
    whole = run_parts(ALGORITHMS[name], window, [list(range(count))])
    for size in (1, 2, count // 2):
        parts = [list(range(start, min(start + size, count))) for start in range(0, count, size)]
        for actual, expected in zip(run_parts(ALGORITHMS[name], window, parts), whole, strict=True):
            assert_close(actual, expected)


def test_R002_log_probs_are_those_of_logits_over_temperature():
    head = Head(weight=tensor([2.0, 0.0, 0.0])[:, None], bias=None, scale=1.0, softcap=None)
    log_probs, _ = token_log_probs(torch.ones(1, 1), head, torch.tensor([0]), 0.5)
    assert log_probs.item() == pytest.approx(-0.0360, abs=5e-5)


def on_policy_step(rewards):
    mask = torch.ones(len(rewards), 5)
    return Step(mask, -torch.arange(1.0, 1 + mask.numel()).view_as(mask), rewards=rewards)


def test_R006_value_zero_by_construction_still_has_a_gradient():
    alive = run(GRPO(beta=0), on_policy_step([1.0, 0.0, 0.0, 1.0]))
    assert abs(alive.loss) < 1e-6 and alive.gradient.norm() > 0.1
    assert GRPO(beta=0).signal(alive.batch).all()

    dead = run(GRPO(beta=0), on_policy_step([1.0, 1.0, 1.0, 1.0]))
    assert dead.gradient.norm() == 0 and not GRPO(beta=0).signal(dead.batch).any()
    assert degenerate_groups(dead.batch.rewards, dead.batch.group_index, 1).tolist() == [True]
    assert GRPO(beta=0.04).signal(dead.batch).all()  # the KL still pulls


def test_R011_gold_that_cannot_be_read_gives_no_reward():
    alone = run(GRPO(beta=0), on_policy_step([1.0, 0.0, 0.0, 1.0]))
    both = on_policy_step([1.0, 0.0, 0.0, 1.0] + [float("nan")] * 4)
    mixed = run(GRPO(beta=0), replace(both, groups=list("aaaabbbb")))
    advantages = unpack_rows(mixed.batch.advantages, both.mask)
    assert torch.equal(advantages[:4], unpack_rows(alone.batch.advantages, torch.ones(4, 5)))
    assert torch.equal(mixed.weights[:4] * 2, alone.weights)  # all eight stay in N, as with one score among four
    assert (advantages[4:] == 0).all() and (mixed.weights[4:] == 0).all() and (mixed.gradient[4:] == 0).all()
    assert degenerate_groups(mixed.batch.rewards, mixed.batch.group_index, 2).tolist() == [False, True]


def test_R023_a_missing_reward_leaves_statistics_and_loss():
    rewards = [1.0, 0.0, 1.5, float("nan")]  # sums of [1, 0, 1, None] and [None, None, 0.5, None]
    step = replace(on_policy_step(rewards), ref=torch.full((4, 5), -3.0))
    result = run(GRPO.model_validate({"std": "exact", "beta": 0.5}), step)
    values = tensor(rewards[:3])
    expected = [*((values - values.mean()) / values.std(correction=0)).tolist(), 0.0]
    assert_close(unpack_rows(result.batch.advantages, step.mask)[:, 0], expected)
    assert (result.gradient[3] == 0).all() and (result.gradient[:3] != 0).all()

    nothing = run(GRPO(), replace(step, rewards=[float("nan")] * 4))
    assert nothing.loss == 0 and (nothing.gradient == 0).all() and not GRPO().signal(nothing.batch).any()


def test_R036_groups_are_known_by_id():
    rewards, index = tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([0, 1, 0, 1])
    result = group_advantages(rewards, index, 2)
    assert result.advantages.tolist() == [0.0] * 4 and result.degenerate.all()

    step = replace(on_policy_step(rewards.tolist()), groups=["a", "b", "a", "b"])
    assert (run(GRPO(beta=0), step).batch.advantages == 0).all()

    shuffle = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    rewards, index = torch.arange(12.0).remainder(5), torch.arange(12) // 4
    in_order = group_advantages(rewards, index, 3).advantages
    assert_close(group_advantages(rewards[shuffle], index[shuffle], 3).advantages, in_order[shuffle])


def test_R038_single_survivor_gives_nothing_and_is_counted():
    assert GRPO().needs.min_group_size == 2
    rewards = tensor([1.0, 0.0, 0.0, 0.0, 1.0])
    index = torch.tensor([0, 0, 0, 0, 1])
    for scale in ("group", "batch", "none"):
        for baseline in ("mean", "leave-one-out"):
            result = group_advantages(rewards, index, 2, scale=scale, baseline=baseline)
            assert result.advantages.isfinite().all() and result.advantages[4] == 0
            assert result.degenerate.tolist() == [False, True]


def test_R039_kl_does_not_overflow():
    log_probs, ref = torch.full((2, 5), -1.0), torch.full((2, 5), -1.0)
    log_probs[0, 2] = -120.0
    for dtype in (torch.float32, torch.float64):
        for kl_gradient in ("as_is", "unbiased"):
            step = Step(torch.ones(2, 5), log_probs.to(dtype), ref=ref.to(dtype), rewards=[1.0, 1.0])
            result = run(GRPO(kl_gradient=kl_gradient), step)
            assert torch.isfinite(torch.tensor(result.loss)) and result.gradient.isfinite().all()
            assert result.gradient[0, 2] == 0 and result.coefficient[0, 2] == 0
            assert result.metrics["kl_clamp_fraction"].total == 1
            assert result.metrics["kl_clamp_fraction"].count == 10


def test_R049_filtered_completions_leave_numerator_and_denominator():
    mask = torch.arange(8) < tensor([4, 8])[:, None]
    step = Step(mask, torch.full((2, 8), -1.0), rewards=[1.0, 0.0], truncated=[False, True])
    algorithm = GRPO(beta=0, aggregation="token-mean", overlong_filter=True)
    result = run(algorithm, step)
    assert result.weights[0, :4].tolist() == [0.25] * 4 and (result.weights[1] == 0).all()
    assert result.batch.advantages[0] == pytest.approx(1, abs=1e-7)  # the statistics keep the truncated completion

    alone = prepare(algorithm.model_copy(update={"overlong_filter": False, "overlong_filter_stats": True}), step)
    assert (alone.advantages == 0).all() and alone.loss_mask.sum() == 4

    everything = run(algorithm, replace(step, truncated=[True, True]))
    assert everything.loss == 0 and (everything.gradient == 0).all() and everything.weights.isfinite().all()
    assert not algorithm.signal(everything.batch).any()
