"""Configurations that were really run: planning says that they fit, and how much room they had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupwise.planning.activations import FUSED_BFLOAT16, Packing
from groupwise.planning.catalogue import find
from groupwise.planning.memory import GPU_ALLOWANCE, Workload, predict
from groupwise.planning.recipes import RECIPES, STORAGES
from groupwise.planning.rollout import Engine, Rollout
from groupwise.planning.sharding import Sharding


def workload(name: str, longest: int, **more: object) -> Workload:
    """Full training of a model on sequences of this length, one per micro-batch, logits of the whole sequence."""
    model = find(name)
    return Workload(
        model.shape,
        model.parameters,
        model.parameters,
        FUSED_BFLOAT16,
        Packing.sequence(longest),
        chunk_rows=None,
        allowance=GPU_ALLOWANCE,
        **more,  # type: ignore[arg-type]
    )


H20, RANKS = 96e9, 128
DAPO = workload(
    "qwen2.5-32b",
    2048 + 20480,
    old_log_probs=True,
    recipe=RECIPES["fsdp-fp32"],
    sharding=Sharding(RANKS),
    engine=Engine("colocated", RANKS, tensor_parallel=4, utilisation=0.8),
    rollout=Rollout(2048, 20480, 16, rows=512 * 16 // (RANKS // 4)),
    device_memory=H20,
)
"""arXiv:2503.14476: Qwen2.5-32B, 512 prompts of 16 responses, at most 20480 tokens, no reference, on 128 H20. How it
was sharded is what its open code has: FSDP over all, engines of four devices beside, training state away while they
sample. Sequence parallelism, which it has too, isn't counted on."""


def test_dapo_32b_fits_on_128_h20():
    prediction = predict(DAPO, checkpointing=True)
    assert [phase.name for phase in prediction.phases] == ["rollout", "old log-probs", "update"]
    assert prediction.room(H20) > 15e9
    assert 20e9 < H20 - prediction.phase("update").total < 35e9
    state = sum(prediction.phase("update").components[name] for name in ("weights", "gradients", "optimiser"))
    assert state * RANKS == pytest.approx(16 * 32.76e9, rel=1e-3)


def test_dapo_32b_needs_checkpointing_and_samples_in_waves():
    assert predict(DAPO, checkpointing=False).room(H20) < -300e9
    copy = DAPO.engine.weights(DAPO.parameters, DAPO.shape.linear_parameters)
    assert DAPO.rollout is not None and DAPO.rollout.rows == 256
    assert 40 <= DAPO.engine.rows(DAPO.shape, DAPO.rollout, H20, copy) <= 50
    sliced = predict(replace(DAPO, chunk_rows=1024), checkpointing=True).phase("update").total
    assert predict(DAPO, checkpointing=True).phase("update").total - sliced > 25e9


A100, NODE = 80e9, 8
MATH = workload(
    "deepseek-math-7b",
    1024 + 1024,
    reference=True,
    reward_model=find("deepseek-math-7b").parameters,
    recipe=RECIPES["mixed"],
    sharding=Sharding(NODE),
    engine=Engine("colocated", NODE),
    rollout=Rollout(1024, 1024, 64, rows=16 * 64 // NODE),
    device_memory=A100,
)
"""arXiv:2402.03300: DeepSeekMath-Instruct 7B, 64 samples of 1024 tokens, a batch of 1024, a reference and a learned
reward model. The hardware isn't told: here one machine with eight devices of 80 GB."""


def test_deepseek_math_7b_fits_on_one_machine_but_not_on_one_device():
    prediction = predict(MATH, checkpointing=True)
    assert [phase.name for phase in prediction.phases] == ["rollout", "scoring", "reference", "update"]
    assert prediction.phase("update").total < 30e9 and prediction.room(A100) > 5e9
    assert predict(MATH, checkpointing=False).room(A100) > 0
    alone = replace(MATH, sharding=Sharding(1), engine=Engine("colocated", 1))
    assert predict(alone, checkpointing=True).room(A100) < -40e9


def test_a_model_of_65b_in_4_bits_trains_adapters_on_48_gb():
    """QLoRA (arXiv:2305.14314): LLaMA-65B, rank 64 on all matrices, sequences of 512."""
    shape = replace(find("llama-2-13b").shape, layers=80, hidden=8192, heads=64, kv_heads=64, intermediate=22016)
    adapters = shape.lora_parameters(64)
    work = Workload(
        shape,
        shape.parameters + adapters,
        adapters,
        FUSED_BFLOAT16,
        Packing.sequence(512),
        recipe=RECIPES["bf16"],
        base=STORAGES["nf4"],
        allowance=GPU_ALLOWANCE,
    )
    assert shape.parameters == pytest.approx(65.3e9, rel=0.002)
    prediction = predict(work, checkpointing=True)
    assert prediction.phase("update").components["weights"] / 1e9 == pytest.approx(33.4 + 1.05 + 1.6, abs=0.1)
    assert 0 < prediction.room(48e9) < 6e9
    assert predict(replace(work, base=None), checkpointing=True).room(48e9) < -90e9
