"""Memory by arithmetic: the vectors, and what the phases of a step are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupwise.algorithms import ALGORITHMS
from groupwise.planning.activations import (
    FLOAT32,
    FUSED_BFLOAT16,
    Packing,
    Precision,
    activations,
    layer_activations,
    layer_inputs,
    logits,
)
from groupwise.planning.catalogue import find
from groupwise.planning.memory import Phase, Workload, predict
from groupwise.planning.networks import kept, seed_table
from groupwise.planning.recipes import RECIPES, Recipe, Storage
from groupwise.planning.rollout import Engine, Rollout, kv_bytes
from groupwise.planning.shape import Shape
from groupwise.planning.sharding import Sharding

VECTORS: dict[str, dict[str, Any]] = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text("utf-8"))["vectors"]
}
LLAMA_70B = Shape(80, 8192, 64, 8, 128, 28672, 128256, tied=False)
MIXED = RECIPES["mixed"]
NOMINAL = find("llama-70b").nominal


def gigabytes(algorithm: str, reward_models: int, recipe: Recipe = MIXED) -> float:
    """Of an algorithm whose networks have 70e9 parameters each."""
    networks = kept(ALGORITHMS[algorithm]().needs, reward_models)
    return sum(networks.resident(NOMINAL, recipe).values()) / 1e9


def test_mem_arch_70b():
    vector = VECTORS["mem_arch_70b"]
    given, expected = vector["inputs"], vector["expected"]
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied")
    shape = Shape(*(given[name] for name in names))
    assert shape == LLAMA_70B == find("llama-70b").shape
    one = Packing.sequence(1)
    layer = layer_activations(shape, one, FUSED_BFLOAT16)
    assert shape.parameters == expected["params"]
    assert kv_bytes(shape, 2) == expected["kv_bytes_per_token_bf16"]
    assert kv_bytes(replace(shape, kv_heads=64), 2) == expected["kv_bytes_if_mha"]
    assert layer == expected["act_bytes_per_token_layer"]
    assert shape.layers * layer == expected["act_bytes_per_token_no_ckpt"]
    assert shape.layers * layer_inputs(shape, one, FUSED_BFLOAT16) == expected["act_bytes_per_token_full_ckpt"]
    assert logits(shape, 1, 1) == expected["logit_bytes_per_token_fp32"]
    assert shape.lora_parameters(16) == expected["lora_params"]
    adapter = MIXED.network(expected["lora_params"], expected["lora_params"])
    assert sum(adapter.values()) == expected["lora_train_bytes"]


def test_mem_rollout_70b():
    given, expected = VECTORS["mem_rollout_70b"]["inputs"], VECTORS["mem_rollout_70b"]["expected"]
    tokens = given["tokens"]
    rollout = Rollout(prompt=0, completion=tokens, samples=given["G"], rows=given["G"])
    assert rollout.tokens * kv_bytes(LLAMA_70B, 2) / 1e9 == expected["kv_GB"]
    assert logits(LLAMA_70B, tokens, 1) / 1e9 == expected["logits_fp32_GB"]
    sequence = Packing.sequence(tokens)
    layer = layer_activations(LLAMA_70B, sequence, FUSED_BFLOAT16)
    inputs = layer_inputs(LLAMA_70B, sequence, FUSED_BFLOAT16)
    assert LLAMA_70B.layers * layer / 1e9 == expected["act_no_ckpt_GB"]
    assert (LLAMA_70B.layers * inputs + layer) / 1e9 == expected["act_full_ckpt_GB"]


def test_mem_seed_70b():
    vector = VECTORS["mem_seed_70b"]
    expected, components = vector["expected"], vector["expected"]["components"]
    assert vector["inputs"]["params"] == NOMINAL
    ppo = seed_table("ppo", ALGORITHMS["ppo"]().needs, NOMINAL)
    assert {name: size / 1e9 for name, size in ppo.items()} == {
        "weights": components["actor_w"],
        "optimiser": components["actor_opt"],
        "critic's weights": components["critic_w"],
        "critic's optimiser": components["critic_opt"],
        "reference": components["ref"],
        "reward model": components["rm"],
    }
    totals = {
        f"{name}_total" if name != "grpo" else "grpo_rule": sum(seed_table(name, needs, NOMINAL).values()) / 1e9
        for name in ("ppo", "grpo", "sft", "dpo")
        for needs in [ALGORITHMS[name]().needs]
    }
    totals["grpo_rm"] = gigabytes("grpo", 1, RECIPES["seed"])
    assert totals == {name: expected[name] for name in totals}
    assert (totals["ppo_total"], totals["grpo_rule"], totals["grpo_rm"]) == (1680, 840, 980)
    assert (totals["sft_total"], totals["dpo_total"]) == (700, 840)
    assert 1 - totals["grpo_rule"] / totals["ppo_total"] == expected["saving_rule"]
    assert 1 - totals["grpo_rm"] / totals["ppo_total"] == pytest.approx(expected["saving_rm"], abs=1e-9)


def test_like_for_like_the_saving_of_the_seed_table_is_smaller():
    seed = RECIPES["seed"]
    for reward_models, saving in ((0, 0.455), (1, 0.417)):
        ratio = gigabytes("grpo", reward_models, seed) / gigabytes("ppo", reward_models, seed)
        assert 1 - ratio == pytest.approx(saving, abs=5e-4)


def test_mem_mixed_70b():
    expected, seed = VECTORS["mem_mixed_70b"]["expected"], RECIPES["seed"]
    assert gigabytes("sft", 0) == expected["per_trainable"]
    assert gigabytes("grpo", 0) == expected["grpo_rule"]
    assert gigabytes("grpo", 1) == expected["grpo_rm"]
    assert gigabytes("ppo", 1) == expected["ppo"]
    assert gigabytes("ppo", 1) - gigabytes("ppo", 1, seed) == expected["missing_from_seed_ppo"]
    assert gigabytes("grpo", 0) - gigabytes("grpo", 0, seed) == expected["missing_from_seed_grpo"]
    assert gigabytes("sft", 0, RECIPES["mixed-fp32-grads"]) == expected["fp32_grad_variant_per_trainable"]


def test_mem_zero_70b():
    given, expected = VECTORS["mem_zero_70b"]["inputs"], VECTORS["mem_zero_70b"]["expected"]
    networks = kept(ALGORITHMS["sft"]().needs)
    sizes = {
        f"stage{stage}": networks.resident(int(given["params"]), MIXED, Sharding(given["N"], stage))
        for stage in range(4)
    }
    assert {name: sum(parts.values()) / 1e9 for name, parts in sizes.items()} == expected


def test_mem_korthikanti():
    given, expected = VECTORS["mem_korthikanti"]["inputs"], VECTORS["mem_korthikanti"]["expected"]
    hidden, heads = given["h"], given["a"]
    gpt = replace(find("gpt2").shape, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads)
    gpt = replace(gpt, intermediate=4 * hidden, stepwise_activation=False)
    assert given["b"] == 1
    sequence, kernels = Packing.sequence(given["s"]), Precision(2, 2, fused=True, attention="scores", dropout=True)
    selective = replace(kernels, attention="recomputed")
    assert layer_activations(gpt, sequence, kernels) == expected["none"]
    assert layer_activations(gpt, sequence, selective) == expected["selective"]
    assert layer_inputs(gpt, sequence, kernels) == expected["full"]


def test_mem_lora_70b():
    given, expected = VECTORS["mem_lora_70b"]["inputs"], VECTORS["mem_lora_70b"]["expected"]
    base, adapter = given["params"], given["lora_params"]
    packing = Packing.sequence(8192)
    work = Workload(LLAMA_70B, base + adapter, adapter, FUSED_BFLOAT16, packing, recipe=MIXED)
    parts = networks_of(predict(work, checkpointing=True).phase("update"))
    assert MIXED.network(base, 0)["weights"] / 1e9 == expected["base_bf16_GB"]
    assert parts["weights"] == 2 * (base + adapter)
    assert (sum(parts.values()) - 2 * base) / 1e9 == expected["adapter_state_GB"]
    assert sum(parts.values()) / 1e9 == pytest.approx(expected["total_GB"], abs=1e-9)
    free = predict(replace(work, reference=True, reference_is_base=True), checkpointing=True)
    assert networks_of(free.phase("update")) == parts
    nf4 = (4 + 0.127) / 8
    everything = replace(work, base=Storage(nf4, nf4))
    quantised = predict(everything, checkpointing=True).phase("update").components["weights"] - 2 * adapter
    assert quantised / 1e9 == pytest.approx(expected["qlora_base_GB"], abs=1e-9)


def networks_of(phase: Phase) -> dict[str, int]:
    """What a phase holds of networks at rest."""
    names = ("weights", "gradients", "master weights", "optimiser", "reference", "reward model")
    return {name: size for name, size in phase.components.items() if name in names}


def test_mem_plan_70b_64gpu():
    vector = VECTORS["mem_plan_70b_64gpu"]
    given, expected = vector["inputs"], vector["expected"]
    train, sampled = expected["train_bytes"], expected["rollout"]
    ranks, split = given["N"], given["TP"]
    packing = Packing.sequence(given["micro_tokens"])
    engine = Engine("colocated", devices=ranks, tensor_parallel=split, utilisation=0.9)
    work = Workload(
        LLAMA_70B,
        given["params"],
        given["params"],
        FUSED_BFLOAT16,
        packing,
        reference=True,
        recipe=MIXED,
        chunk_rows=1024,
        sharding=Sharding(ranks),
        rollout=Rollout(prompt=0, completion=32768, samples=16, rows=64),
        engine=engine,
        device_memory=80e9,
    )
    prediction = predict(work, checkpointing=True)
    update, rollout = prediction.phase("update"), prediction.phase("rollout")
    resident = networks_of(update)
    listed = {
        "ref_shard": resident.pop("reference"),
        "state": sum(resident.values()),
        "unsharded_two_layers": update.components["gathered layers"],
        "act_ckpt": LLAMA_70B.layers * layer_inputs(LLAMA_70B, packing, FUSED_BFLOAT16),
        "act_one_layer": update.components["layer computed again"],
        "logits_chunk": logits(LLAMA_70B, work.chunk_rows or 0, 2),
    }
    assert listed == train and sum(listed.values()) / 1e9 == expected["train_total_GB"]
    copy = rollout.components["engine's weights"]
    assert copy == sampled["weights"] and kv_bytes(LLAMA_70B, 2, split) == sampled["kv_bytes_per_token"]
    assert engine.capacity(LLAMA_70B, 80e9, copy) == sampled["kv_tokens"]
    assert rollout.components["keys and values"] + copy <= sampled["budget"]
    assert rollout.host == {name: size for name, size in networks_of(update).items() if name != "gradients"}
    assert update.total > sum(listed.values()) - listed["logits_chunk"]  # what is gathered in FSDP's root comes on top


@pytest.mark.parametrize("name", VECTORS["models_in_memory"]["expected"])
def test_models_in_memory(name):
    settings: dict[str, Any] = {}
    if name.startswith(("vapo", "vc_ppo")) or "beta0" in name:
        settings["beta"] = 0.0
    learned = name == "grpo_rm" or name in ("ppo", "rloo", "reinforce_pp")
    algorithm = name.removesuffix("_rule").removesuffix("_rm").removesuffix("_beta0")
    networks = kept(ALGORITHMS[algorithm](**settings).needs, int(learned))
    assert list(networks.counts) == VECTORS["models_in_memory"]["expected"][name]


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
