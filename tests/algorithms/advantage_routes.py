"""Vectors of advantages, through `groupwise.evaluate`."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from algorithm_cases import F1, assert_close, f1_arrays, tensor

import groupwise
from groupwise.algorithms import GRPO
from groupwise.core.advantages import STD_PRESETS
from groupwise.core.rows import pack_rows
from groupwise.core.whitening import whiten
from groupwise.errors import DataError

PRESET_OF = {
    "seed_formula": "seed-formula",
    "seed_code": "seed-code",
    "exact_population": "exact",
    "verl": "verl",
    "trl": "trl",
    "openrlhf_group_norm": "openrlhf",
    "oat_grpo": "oat",
}


def evaluate(rewards, algorithm="grpo", **settings):
    """One token per completion."""
    settings = {"beta": 0, **settings}
    return groupwise.evaluate(algorithm, completion_mask=[[1]] * len(rewards), rewards=rewards, **settings)


def advantages(rewards, *arguments, **settings):
    return evaluate(rewards, *arguments, **settings).advantages[:, 0]


def presets(vector):
    for key, expected in vector["expected"].items():
        if key != "degenerate":
            result = evaluate(vector["inputs"]["rewards"], std=PRESET_OF[key])
            assert_close(result.advantages[:, 0], expected, vector["tol"])
            assert result.metrics["frac_degenerate_groups"] == 0


def pair_identity(vector):
    for size, factor in zip(vector["inputs"]["G"], vector["expected"]["factor"], strict=True):
        rewards = list(range(size))
        sample, population = (
            advantages(rewards, std={"kind": kind, "eps": 0.0, "place": "outside"}) for kind in ("sample", "population")
        )
        assert_close(sample / population, torch.full((size,), factor), vector["tol"])


def tie_rounding(vector):
    for size, std, dtype in itertools.product(vector["inputs"]["G"], STD_PRESETS, (torch.float32, torch.float64)):
        rewards = torch.full((size,), vector["inputs"]["reward"], dtype=dtype)
        assert advantages(rewards, std=std).tolist() == [vector["expected"]["required_advantage"]] * size


def tie(vector):
    for std, scale in itertools.product(STD_PRESETS, ("group", "batch", "none")):
        if std == "nemo-rl" and scale == "batch":
            continue
        result = evaluate(vector["inputs"]["rewards"], std=std, scale=scale, tie_tol=vector["inputs"]["tie_tol"])
        assert result.advantages[:, 0].tolist() == vector["expected"]["advantages"]
        assert result.metrics["frac_degenerate_groups"] == vector["expected"]["degenerate"]


def singleton(vector):
    assert GRPO().needs.min_group_size == 2  # which makes a configured group of one an error of the run file
    assert GRPO(allow_singleton=True).needs.min_group_size == 1
    rewards = vector["inputs"]["rewards"]
    with pytest.raises(DataError, match="no baseline"):
        advantages(rewards)
    for std in STD_PRESETS:
        assert advantages(rewards, std=std, allow_singleton=True).tolist() == vector["expected"]["allow_singleton"]


def dr_grpo(vector):
    result = advantages(vector["inputs"]["rewards"], "dr_grpo", length_constant=8)
    assert_close(result, vector["expected"]["advantages"], vector["tol"])


def rloo(vector):
    rewards, expected = vector["inputs"]["rewards"], vector["expected"]
    result = advantages(rewards, "rloo")
    assert_close(result, expected["advantages"], vector["tol"])
    if "ratio_to_dr_grpo" in expected:
        assert_close(result, expected["ratio_to_dr_grpo"] * advantages(rewards, "dr_grpo", length_constant=8))


def passthrough_nan(vector):
    rewards = vector["inputs"]["rewards"]
    assert_close(advantages(rewards, std="exact"), vector["expected"]["advantages"], vector["tol"])
    result = groupwise.evaluate("grpo", **f1_arrays(), rewards=rewards)
    assert result.gradient[1].tolist() == [0.0] * 4 and result.weights[1].tolist() == [0.0] * 4


def batch_std(vector):
    rewards, groups = sum(vector["inputs"]["rewards"], []), list("aaaabbbb")
    raw = advantages(rewards, group_ids=groups, scale="batch", std="exact")
    assert_close(raw.view(2, 4), vector["expected"]["raw_std"], vector["tol"])
    exact = {"std": "exact", "statistics": "completions"}
    centred = advantages(rewards, "reinforce_pp_baseline", group_ids=groups, **exact)
    assert_close(centred.view(2, 4), vector["expected"]["centred_std"], vector["tol"])


def bernoulli(vector):
    """E[(1/G) sum_i A_i (a_i - p)] over all outcomes of G draws from Bernoulli(p), reward = action."""
    estimators = {"self_mean": {"scale": "none"}, "rloo": {"scale": "none", "baseline": "leave-one-out"}}
    estimators["std_normalised"] = {"std": "exact"}
    sums: dict[tuple[str, int, int], tuple[float, float]] = {}
    for size in vector["inputs"]["G"]:
        for successes, (name, settings) in itertools.product(range(size + 1), estimators.items()):
            actions = torch.cat([torch.ones(successes), torch.zeros(size - successes)])
            values = advantages(actions, **settings)
            sums[name, size, successes] = (values * actions).mean().item(), values.mean().item()
    for row in vector["expected"]["rows"]:
        p, size = row["p"], row["G"]
        for name in estimators:
            total = 0.0
            for successes in range(size + 1):
                chance = math.comb(size, successes) * p**successes * (1 - p) ** (size - successes)
                with_action, mean = sums[name, size, successes]
                total += chance * (with_action - p * mean)
            assert_close(total, row[name], vector["tol"])


def process(vector):
    inputs, config = vector["inputs"], vector["config"]
    width = max(inputs["lengths"])
    mask = [[1] * length + [0] * (width - length) for length in inputs["lengths"]]
    std = {"kind": config.get("std", "population"), "eps": config.get("eps", 1e-8), "place": "outside"}
    result = groupwise.evaluate(
        "grpo",
        completion_mask=mask,
        step_rewards=inputs["step_rewards"],
        step_ends=[[end - 1 for end in ends] for ends in inputs["step_end_index_1based"]],
        supervision="process",
        std=std,
        beta=0,
    )
    for row, expected in enumerate(vector["expected"]["advantages"]):
        assert_close(result.advantages[row, : len(expected)], expected, vector["tol"])
    if vector["expected"].get("degenerate"):
        assert (result.advantages == 0).all()


def reinforce_pp_baseline(vector):
    inputs = vector["inputs"]
    width = max(inputs["lengths"])
    mask = torch.arange(width) < torch.tensor(inputs["lengths"])[:, None]
    std = {"kind": vector["config"]["std"], "eps": vector["config"]["eps"], "place": "outside"}
    centred = tensor(vector["expected"]["centred"])
    for statistics, key in (("tokens", "token_weighted"), ("completions", "sequence_weighted")):
        expected = vector["expected"][key]
        result = groupwise.evaluate(
            "reinforce_pp_baseline",
            completion_mask=mask,
            rewards=inputs["rewards"],
            group_ids=inputs["group"],
            statistics=statistics,
            std=std,
            beta=0,
        )
        assert_close(result.advantages[:, 0], expected["advantages"], vector["tol"])
        values = centred[:, None].expand_as(mask)[mask] if statistics == "tokens" else centred
        raw = whiten(values, torch.ones(len(values), dtype=torch.bool))
        assert_close(raw.mean, expected["mean"], vector["tol"])
        assert_close(values.std(correction=0), expected["std"], vector["tol"])


def difficulty_bias(vector):
    """How much more a prompt weighs with the standard deviation than without."""
    size = vector["inputs"]["G"]
    for right, weight in zip(vector["inputs"]["k"], vector["expected"]["weight"], strict=True):
        rewards = [1.0] * right + [0.0] * (size - right)
        with_std = advantages(rewards, std="exact")
        assert_close(with_std / advantages(rewards, "dr_grpo", length_constant=8), [weight] * size, vector["tol"])


def f1_rewards_give_f1_advantages():
    assert advantages([1.0, 0.0, 1.0, 0.0], std="exact").tolist() == F1["advantages"]
    assert pack_rows(F1["mask"]).group_ids == ("0",)


ADVANTAGES = {
    **dict.fromkeys(
        (
            "adv_group_seed_example",
            "adv_group_mixed6",
            "adv_group_pair",
            "adv_group_one_of_eight",
            "adv_group_pm1_three_of_four",
            "adv_not_tie",
        ),
        presets,
    ),
    **dict.fromkeys(("adv_tie_zeros", "adv_tie_ones", "adv_tie_tenths", "adv_tie_tenths10", "adv_tie_near_tie"), tie),
    **dict.fromkeys(
        ("adv_process_population", "adv_process_sample", "adv_process_outcome_reduces", "adv_process_all_tied"), process
    ),
    "adv_pair_identity": pair_identity,
    "adv_tie_rounding_demo": tie_rounding,
    "adv_G1": singleton,
    "adv_dr_grpo": dr_grpo,
    "adv_rloo": rloo,
    "adv_rloo_seed": rloo,
    "adv_passthrough_nan": passthrough_nan,
    "adv_batch_std": batch_std,
    "bias_bernoulli_exact": bernoulli,
    "rfpp_baseline": reinforce_pp_baseline,
    "inv_difficulty_bias": difficulty_bias,
}
"""Vectors whose route is `groupwise.evaluate(...).advantages`."""
