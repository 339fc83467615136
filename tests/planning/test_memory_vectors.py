"""Memory by arithmetic: the vectors, and what the phases of a step are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupwise.planning.activations import FLOAT32, FUSED_BFLOAT16, Packing, activations, layer_activations, logits
from groupwise.planning.memory import Workload, predict
from groupwise.planning.recipes import Recipe
from groupwise.planning.rollout import Rollout, kv_bytes
from groupwise.planning.shape import Shape

VECTORS: dict[str, dict[str, Any]] = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text("utf-8"))["vectors"]
}
LLAMA_70B = Shape(80, 8192, 64, 8, 128, 28672, 128256, tied=False)
SEED, MIXED = Recipe(2, 0, 0, 8), Recipe(2, 2, 4, 8)


def gigabytes(recipe: Recipe, trained: int, frozen: int) -> float:
    """Of 70e9 parameters each."""
    size = int(70e9)
    state = trained * sum(recipe.network(size, size).values()) + frozen * sum(recipe.network(size, 0).values())
    return state / 1e9


def test_mem_arch_70b():
    vector = VECTORS["mem_arch_70b"]
    given, expected = vector["inputs"], vector["expected"]
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied")
    shape = Shape(*(given[name] for name in names))
    assert shape == LLAMA_70B
    one = Packing.sequence(1)
    layer = layer_activations(shape, replace(one, scores=0), FUSED_BFLOAT16)
    assert shape.parameters == expected["params"]
    assert kv_bytes(shape, 2) == expected["kv_bytes_per_token_bf16"]
    assert kv_bytes(replace(shape, kv_heads=64), 2) == expected["kv_bytes_if_mha"]
    assert layer == expected["act_bytes_per_token_layer"]
    assert shape.layers * layer == expected["act_bytes_per_token_no_ckpt"]
    assert shape.layers * shape.hidden * FUSED_BFLOAT16.residual == expected["act_bytes_per_token_full_ckpt"]
    assert logits(shape, 1, 1) == expected["logit_bytes_per_token_fp32"]
    assert shape.lora_parameters(16) == expected["lora_params"]
    adapter = Recipe(2, 2, 4, 8).network(expected["lora_params"], expected["lora_params"])
    assert sum(adapter.values()) == expected["lora_train_bytes"]


def test_mem_rollout_70b():
    given, expected = VECTORS["mem_rollout_70b"]["inputs"], VECTORS["mem_rollout_70b"]["expected"]
    tokens = given["tokens"]
    rollout = Rollout(prompt=0, completion=tokens, samples=given["G"], rows=given["G"])
    assert rollout.tokens * kv_bytes(LLAMA_70B, 2) / 1e9 == expected["kv_GB"]
    assert logits(LLAMA_70B, tokens, 1) / 1e9 == expected["logits_fp32_GB"]
    layer = layer_activations(LLAMA_70B, Packing.sequence(tokens), FUSED_BFLOAT16)
    inputs = tokens * LLAMA_70B.hidden * FUSED_BFLOAT16.residual
    assert LLAMA_70B.layers * layer / 1e9 == expected["act_no_ckpt_GB"]
    assert (LLAMA_70B.layers * inputs + layer) / 1e9 == expected["act_full_ckpt_GB"]


def test_mem_seed_70b():
    expected = VECTORS["mem_seed_70b"]["expected"]
    network = SEED.network(int(70e9), int(70e9))
    assert {name: size / 1e9 for name, size in network.items()} == {
        "weights": expected["components"]["actor_w"],
        "optimiser": expected["components"]["actor_opt"],
    }
    totals = {
        "ppo_total": gigabytes(SEED, 2, 2),
        "grpo_rule": gigabytes(SEED, 1, 1),
        "grpo_rm": gigabytes(SEED, 1, 2),
        "sft_total": gigabytes(SEED, 1, 0),
        "dpo_total": gigabytes(SEED, 1, 1),
    }
    assert totals == {name: expected[name] for name in totals}
    assert 1 - totals["grpo_rule"] / totals["ppo_total"] == expected["saving_rule"]
    assert 1 - totals["grpo_rm"] / totals["ppo_total"] == pytest.approx(expected["saving_rm"], abs=1e-9)


def test_mem_mixed_70b():
    expected = VECTORS["mem_mixed_70b"]["expected"]
    assert gigabytes(MIXED, 1, 0) == expected["per_trainable"]
    assert gigabytes(MIXED, 1, 1) == expected["grpo_rule"]
    assert gigabytes(MIXED, 1, 2) == expected["grpo_rm"]
    assert gigabytes(MIXED, 2, 2) == expected["ppo"]
    assert gigabytes(MIXED, 2, 2) - gigabytes(SEED, 2, 2) == expected["missing_from_seed_ppo"]
    assert gigabytes(MIXED, 1, 1) - gigabytes(SEED, 1, 1) == expected["missing_from_seed_grpo"]
    assert gigabytes(replace(MIXED, gradient=4), 1, 0) == expected["fp32_grad_variant_per_trainable"]


def test_mem_lora_70b_without_quantisation():
    given, expected = VECTORS["mem_lora_70b"]["inputs"], VECTORS["mem_lora_70b"]["expected"]
    base = sum(MIXED.network(given["params"], 0).values())
    adapter = sum(MIXED.network(given["lora_params"], given["lora_params"]).values())
    assert base / 1e9 == expected["base_bf16_GB"]
    assert adapter / 1e9 == expected["adapter_state_GB"]
    assert (base + adapter) / 1e9 == pytest.approx(expected["total_GB"], abs=1e-9)


SMALL = Shape(4, 128, 4, 2, 32, 384, 1000, tied=True)
WORK = Workload(SMALL, SMALL.parameters, SMALL.parameters, FLOAT32, Packing.equal(60, 40, 8, 2))


def total(work: Workload, name: str = "update") -> int:
    return predict(work, checkpointing=False).phase(name).total


def test_networks_beside_the_policy_add_what_they_hold():
    size = 4 * SMALL.parameters
    assert total(replace(WORK, reference=True)) - total(WORK) == size
    added = activations(SMALL, WORK.packing, FLOAT32, checkpointing=False)
    assert total(replace(WORK, critic=True)) - total(WORK) == 4 * size + added
    adapters = 10_000
    lora = replace(WORK, trained=adapters)
    parts = predict(lora, checkpointing=False).phase("update").components
    assert (parts["weights"], parts["gradients"], parts["optimiser"]) == (size, 4 * adapters, 8 * adapters)
    assert total(replace(lora, reference=True)) - total(lora) == 4 * adapters


def test_the_phase_that_binds_is_named():
    short = replace(WORK, rollout=Rollout(60, 40, 8, 16))
    prediction = predict(short, checkpointing=False)
    assert [phase.name for phase in prediction.phases] == ["rollout", "update"]
    assert prediction.binding.name == "update" and prediction.peak == prediction.phase("update").total
    assert "gradients" not in prediction.phase("rollout").components
    long = predict(replace(WORK, rollout=Rollout(60, 20_000, 8, 64)), checkpointing=True)
    assert long.binding.name == "rollout" and long.peak == long.phase("rollout").total


def test_prompts_are_held_once_per_group():
    assert Rollout(prompt=100, completion=10, samples=8, rows=64).tokens == 8 * 100 + 64 * 10
    shared, alone = Packing.equal(100, 10, 8), Packing.equal(100, 10, 1, groups=8)
    assert (shared.tokens, alone.tokens) == (180, 880)
    assert shared.keys == 100 + 8 * 110 and shared.queries == shared.tokens


def test_ragged_completions_are_padded_in_attention_alone():
    ragged = Packing.padded(prompt=100, longest=50, samples=4, groups=2, scored=150)
    assert (ragged.tokens, ragged.scored) == (350, 150)
    assert (ragged.queries, ragged.keys) == (200 + 8 * 50, 200 + 8 * 150)
