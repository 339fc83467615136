"""What other systems mean by a name, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from algorithm_cases import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import groupwise
from groupwise.algorithms import ALGORITHMS, DAPO, GRPO, PPO, DrGRPO
from groupwise.algorithms.presets import PRESETS, PresetName

LONE = [1.0] + [0.0] * 15
"""One right answer of sixteen: mean 1/16, population variance 15/256, sample variance 1/16."""

BY_HAND = {
    "seed-formula": (0.9375 / math.sqrt(15 / 256 + 1e-8), -0.0625 / math.sqrt(15 / 256 + 1e-8)),
    "deepseekmath": (math.sqrt(15), -1 / math.sqrt(15)),
    "deepseek-r1": (math.sqrt(15), -1 / math.sqrt(15)),
    "seed-code": (0.9375 / (0.25 + 1e-8), -0.0625 / (0.25 + 1e-8)),
    "oat": (0.9375 / (0.25 + 1e-8), -0.0625 / (0.25 + 1e-8)),
    "verl": (0.9375 / (0.25 + 1e-6), -0.0625 / (0.25 + 1e-6)),
    "trl-1.16": (0.9375 / (0.25 + 1e-4), -0.0625 / (0.25 + 1e-4)),
    "openrlhf": (0.9375 / (0.25 + 1e-9), -0.0625 / (0.25 + 1e-9)),
    # the others' mean is 1/15 and their sample deviation sqrt(1/15); those of the right one are tied
    "nemo-rl": (1.0, -(1 / 15) / (math.sqrt(1 / 15) + 1e-6)),
}
KL = {"seed-formula": 0.04, "seed-code": 0.04, "deepseekmath": 0.04, "deepseek-r1": 0.001, "openrlhf": 0.01}
KL |= {"nemo-rl": 0.01}
TOKEN_MEAN = {"trl-1.16", "verl", "openrlhf", "nemo-rl"}


@pytest.mark.parametrize("preset", BY_HAND)
def test_preset_of_grpo(preset):
    """Advantages, and the loss of two tokens and one, on policy and where only a KL is left."""
    right, wrong = BY_HAND[preset]
    rows = {"completion_mask": [[1]] * 16, "ref_log_probs": [[0.0]] * 16}
    result = groupwise.evaluate("grpo", rewards=LONE, preset=preset, **rows)
    assert_close(result.advantages[:, 0], [right] + [wrong] * 15, 1e-12)
    assert result.metrics["clip_fraction_high"] == 0

    two = {"completion_mask": [[1, 1], [1, 0]], "log_probs": [[-1.0, -1.0], [-1.0, 0.0]]}
    two["ref_log_probs"] = [[-1.0 + math.log(2)] * 2, [-1.0, 0.0]]  # k3 is 1 - log 2 on the first row, 0 on the second
    loss = groupwise.evaluate("grpo", advantages=[0.0, 0.0], preset=preset, **two).loss
    share = 2 / 3 if preset in TOKEN_MEAN else 1 / 2
    assert_close(loss, KL.get(preset, 0.0) * share * (1 - math.log(2)), 1e-12)

    ratios = {"log_probs": [[math.log(r)] for r in (1.5, 0.5)], "old_log_probs": [[0.0]] * 2}
    ratios["ref_log_probs"] = ratios["log_probs"]
    gradient = groupwise.evaluate("grpo", advantages=[1.0, -1.0], preset=preset, **ratios).gradient[:, 0]
    assert_close(gradient, [-0.75, 0.25] if preset == "deepseek-r1" else [0.0, 0.0], 1e-12)


def test_preset_verl_bounds_bad_tokens():
    rows = {"log_probs": [[0.0]], "old_log_probs": [[-3.0]], "advantages": [-1.0]}
    assert groupwise.evaluate("grpo", **rows, preset="verl").loss == 3.0
    assert groupwise.evaluate("grpo", **rows, preset="trl-1.16").loss == pytest.approx(math.exp(3))


def test_preset_dr_grpo_paper():
    rows = {"completion_mask": [[1, 1], [1, 0]], "rewards": [1.0, 0.0]}
    result = groupwise.evaluate("dr_grpo", **rows, preset="dr-grpo-paper")
    assert_close(result.advantages, [[0.5, 0.5], [-0.5, 0.0]])
    assert_close(result.gradient, [[-0.5 / 6000, -0.5 / 6000], [0.5 / 6000, 0.0]])
    assert DrGRPO.model_validate({"preset": "oat"}).length_constant == 3000


def test_preset_dapo_paper():
    mask = torch.arange(20480) < torch.tensor([18432, 1, 1])[:, None]
    result = groupwise.evaluate("dapo", completion_mask=mask, rewards=[1.0, 1.0, -1.0], preset="dapo-paper")
    rewards = torch.tensor([0.5, 1.0, -1.0], dtype=torch.float64)  # 2048 of the 4096 last tokens: half a point off
    assert_close(result.advantages[:, 0], (rewards - rewards.mean()) / rewards.std(correction=0))
    assert_close(result.weights[0, 0], 1 / 18434)
    assert DAPO.model_validate({"preset": "dapo-paper"}).clip_high == 0.28


def test_preset_of_ppo():
    verl = PPO.model_validate({"preset": "verl"})
    assert (verl.beta, verl.lam, verl.dual_clip, verl.value_clip, verl.whiten_std.kind) == (0, 1, 3, 0.5, "sample")
    result = groupwise.evaluate(
        "ppo", completion_mask=[[1], [1]], values=[[0.0], [0.0]], rewards=[1.0, 0.0], preset="verl"
    )
    assert_close(result.advantages[:, 0], [0.5 / math.sqrt(0.5 + 1e-8), -0.5 / math.sqrt(0.5 + 1e-8)])
    assert PPO.model_validate({"preset": "openrlhf"}).beta == 0.01


def test_preset_trl_of_rloo():
    rows = {"log_probs": [[0.0, 0.0], [0.0, 0.0]], "old_log_probs": [[-0.05, -0.05], [0.0, 0.0]]}
    result = groupwise.evaluate(
        "rloo", **rows, ref_log_probs=rows["old_log_probs"], rewards=[1.0, 0.0], preset="trl-1.16"
    )
    assert_close(result.loss, (-math.exp(0.1) + 1) / 2)


def test_own_keys_win_and_settings_can_be_read_again():
    algorithm = GRPO.model_validate({"preset": "verl", "beta": 0.1, "dual_clip": 0})
    assert (algorithm.beta, algorithm.dual_clip, algorithm.std.eps) == (0.1, 0, 1e-6)
    assert GRPO.model_validate(algorithm.model_dump()) == algorithm


def test_presets_that_do_not_fit_are_errors():
    with pytest.raises(ValidationError, match="says nothing of dapo; use one of verl, dapo-paper"):
        DAPO.model_validate({"preset": "trl-1.16"})
    with pytest.raises(ValidationError, match="says nothing of sft; leave preset out"):
        ALGORITHMS["sft"].model_validate({"preset": "verl"})
    with pytest.raises(ValidationError):
        GRPO.model_validate({"preset": "nobody"})
    assert set(PRESETS) == set(get_args(PresetName))
    for tables in PRESETS.values():
        for name, values in tables.items():
            ALGORITHMS[name].model_validate(values)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**31), groups=st.integers(1, 3), size=st.integers(2, 6), width=st.integers(1, 6))
def test_seed_code_is_its_reference_formulas(seed, groups, size, width):
    """Those formulas restated: torch's std plus epsilon, min of two products, exp less itself less one, two means."""
    random = torch.Generator().manual_seed(seed)
    shape = (groups * size, width)
    now, old, ref = (-3 * torch.rand(shape, generator=random) for _ in range(3))
    rewards = torch.randn(groups, size, generator=random)
    lengths = torch.randint(1, width + 1, (groups * size, 1), generator=random)
    mask = (torch.arange(width) < lengths).double()
    leaf = now.clone().requires_grad_()

    gain = ((rewards.T - rewards.mean(1)) / (rewards.T.std(0) + 1e-8)).T.reshape(-1, 1)
    change = (leaf - old).exp()
    per_token = -torch.min(change * gain, change.clamp(0.8, 1.2) * gain)
    gap = ref - leaf
    per_token = per_token + 0.04 * (gap.exp() - gap - 1)
    expected = ((per_token * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()
    expected.backward()

    result = groupwise.evaluate(
        "grpo",
        log_probs=now,
        old_log_probs=old,
        ref_log_probs=ref,
        completion_mask=mask,
        rewards=rewards.flatten(),
        group_ids=[group for group in range(groups) for _ in range(size)],
        preset="seed-code",
    )
    assert_close(result.loss, expected.item(), 1e-10)
    assert_close(result.gradient, leaf.grad, 1e-10)
