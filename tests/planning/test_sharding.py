"""What one device holds of a job on many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupwise.errors import RunFileError
from groupwise.planning.activations import FLOAT32, FUSED_BFLOAT16, Packing
from groupwise.planning.catalogue import find
from groupwise.planning.memory import GPU_ALLOWANCE, Workload, predict
from groupwise.planning.networks import Network
from groupwise.planning.recipes import RECIPES
from groupwise.planning.rollout import Engine, Rollout, kv_bytes
from groupwise.planning.sharding import Sharding

MODEL = find("llama-3-8b")
SHAPE, MIXED = MODEL.shape, RECIPES["mixed"]


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_stages_of_zero_are_those_of_the_paper(stage, gigabytes):
    """Its figure 1: 7.5 billion parameters on 64 devices (arXiv:1910.02054)."""
    size = 7_500_000_000
    parts = Network("policy", size, size).components(MIXED, Sharding(64, stage))
    assert sum(parts.values()) / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_tensor_parallel_divides_before_ranks_do():
    size = 10**9
    whole = sum(Network("policy", size, size).components(MIXED).values())
    for stage, share in ((0, 16 / 4), (3, 16 / 16)):
        parts = Network("policy", size, size).components(MIXED, Sharding(16, stage, tensor_parallel=4))
        assert sum(parts.values()) == whole / 16 * share


WORK = Workload(SHAPE, MODEL.parameters, MODEL.parameters, FUSED_BFLOAT16, Packing.sequence(4096), recipe=MIXED)


def test_stage_3_gathers_two_layers_and_what_is_outside_of_layers():
    parts = predict(replace(WORK, sharding=Sharding(8)), checkpointing=True).phase("update").components
    assert parts["gathered layers"] == 2 * 2 * SHAPE.layer_parameters
    assert parts["gathered embedding and output layer"] == 2 * (2 * 128256 * 4096 + 4096)
    assert parts["gradients of one layer"] == 2 * SHAPE.layer_parameters
    assert SHAPE.root_parameters + 32 * SHAPE.layer_parameters == MODEL.parameters
    one = predict(WORK, checkpointing=True).phase("update").components
    assert not {"gathered layers", "gathered embedding and output layer", "gradients of one layer"} & set(one)


def test_float32_shards_are_gathered_in_fewer_bytes_and_whole_weights_are_copied():
    fsdp = replace(WORK, recipe=RECIPES["fsdp-fp32"])
    sharded = predict(replace(fsdp, sharding=Sharding(8)), checkpointing=True).phase("update").components
    assert sharded["weights"] == 4 * MODEL.parameters / 8 and "rounded weights" not in sharded
    assert sharded["gathered layers"] == 2 * 2 * SHAPE.layer_parameters
    whole = predict(replace(fsdp, sharding=Sharding(8, stage=1)), checkpointing=True).phase("update").components
    assert whole["rounded weights"] == 2 * SHAPE.linear_parameters and "gathered layers" not in whole


def test_more_ranks_never_take_more_of_each():
    peaks = [predict(replace(WORK, sharding=Sharding(2**n)), checkpointing=True).peak for n in range(1, 8)]
    assert peaks == sorted(peaks, reverse=True)
    phase = predict(replace(WORK, sharding=Sharding(8)), checkpointing=True).phase("update")
    assert phase.in_all == 8 * phase.total


def test_tensor_parallel_divides_activations_and_logits():
    one, two = (
        predict(replace(WORK, sharding=Sharding(t, 0, t)), checkpointing=False).phase("update").components
        for t in (1, 2)
    )
    assert {name: 2 * size for name, size in two.items()} == one


def test_keys_and_values_are_divided_until_each_device_has_one_head():
    sizes = [kv_bytes(SHAPE, 2, split) for split in (1, 2, 8, 16)]
    assert sizes == [131072, 65536, 16384, 16384]
    assert kv_bytes(SHAPE, 1) == 65536


ROLLOUT = Rollout(prompt=100, completion=1000, samples=8, rows=64)


def test_pages_round_up_and_prompts_stand_once_per_group():
    assert ROLLOUT.tokens == 8 * 100 + 64 * 1000
    assert ROLLOUT.places(16) == 8 * 112 + 64 * 1008


def colocated(**settings: object) -> Workload:
    engine = Engine("colocated", 8, tensor_parallel=2, **settings)  # type: ignore[arg-type]
    return replace(WORK, sharding=Sharding(8), rollout=ROLLOUT, engine=engine, device_memory=80e9)


def test_a_colocated_engine_has_a_copy_of_the_weights_and_the_trainer_moves_to_the_host():
    phase = predict(colocated(), checkpointing=True).phase("rollout")
    assert phase.components["engine's weights"] == MODEL.parameters
    assert phase.components["keys and values"] == ROLLOUT.places(16) * 65536
    assert set(phase.host) == {"weights", "master weights", "optimiser"} and not set(phase.host) & set(phase.components)
    stays = predict(colocated(offloads=False), checkpointing=True).phase("rollout")
    assert stays.total == phase.total + sum(phase.host.values()) and not stays.host
    shared = predict(colocated(shares_weights=True), checkpointing=True).phase("rollout")
    assert "engine's weights" not in shared.components and "weights" in shared.components


def test_an_engine_apart_holds_nothing_of_training():
    engine = Engine("apart", devices=4, tensor_parallel=2)
    apart = predict(replace(colocated(), engine=engine), checkpointing=True).phase("rollout")
    assert apart.devices == 4 and not apart.host
    assert set(apart.components) == {"engine's weights", "keys and values", "logits"}


def test_a_cache_takes_no_more_than_it_may_but_room_for_one_row():
    longer = replace(ROLLOUT, completion=100_000, rows=512)
    work = replace(colocated(utilisation=0.5), rollout=longer)
    phase = predict(work, checkpointing=True).phase("rollout")
    assert 0.49 * 80e9 < phase.total - phase.components["logits"] <= 0.5 * 80e9
    rows = work.engine.rows(SHAPE, longer, 80e9, MODEL.parameters)
    assert rows == (0.5 * 80e9 - MODEL.parameters) // 65536 // (100_000 + 112 / 8)
    assert work.engine.rows(SHAPE, ROLLOUT, 80e9, MODEL.parameters) == 64
    small = predict(replace(work, device_memory=8e9), checkpointing=True)
    assert small.phase("rollout").components["keys and values"] == (112 + 100_000) * 65536
    assert small.room(8e9) < 0 and work.engine.rows(SHAPE, longer, 8e9, MODEL.parameters) == 0


def test_frozen_networks_wait_on_the_host_outside_their_phase():
    frozen = replace(WORK, reference=True, reward_model=MODEL.parameters, old_log_probs=True, sharding=Sharding(8))
    here, away = (predict(replace(frozen, offloads_frozen=flag), checkpointing=True) for flag in (False, True))
    assert [phase.name for phase in here.phases] == ["scoring", "reference", "old log-probs", "update"]
    size = 2 * MODEL.parameters / 8
    waiting = {"scoring": {"reference"}, "reference": {"reward model"}}
    for phase in here.phases:
        names = waiting.get(phase.name, {"reference", "reward model"})
        assert set(away.phase(phase.name).host) == names
        assert phase.total - away.phase(phase.name).total == len(names) * size


def test_what_is_allowed_for_is_shown():
    plain, more = (
        predict(replace(WORK, allowance=allowance), checkpointing=True).phase("update").components
        for allowance in (WORK.allowance, GPU_ALLOWANCE)
    )
    margins = {name: size for name, size in more.items() if name not in plain}
    added = sum(
        size for name, size in plain.items() if name not in ("weights", "gradients", "master weights", "optimiser")
    )
    assert margins == {"margin for libraries": 2e9, "margin for fragmentation": round(0.1 * added)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sharding(0), "ranks = 0 is less than 1"),
        (lambda: Sharding(8, 4), "stage = 4"),
        (lambda: Sharding(8, tensor_parallel=3), "8 ranks can't be divided by tensor_parallel = 3"),
        (lambda: Engine("apart", 4, 3), "4 devices of engines can't be divided"),
        (lambda: Engine("apart", 4, 2, utilisation=1.5), "utilisation = 1.5"),
        (lambda: predict(replace(WORK, sharding=Sharding(24, 3, 24)), checkpointing=True), "32 heads can't be divided"),
        (lambda: predict(replace(WORK, engine=Engine("colocated", 4)), checkpointing=True), "colocated engines have 4"),
    ],
)
def test_impossible_layouts_are_refused_in_one_line(make, message):
    with pytest.raises(RunFileError, match=message) as error:
        make()
    assert "; " in str(error.value) and "\n" not in str(error.value)


def test_our_own_engine_packs_weights_on_a_cpu_alone():
    model = find("smollm2-135m")
    work = Workload(model.shape, model.parameters, model.parameters, FLOAT32, Packing.equal(60, 40, 8), rollout=ROLLOUT)
    packed = predict(work, checkpointing=False).phase("rollout").components
    plain = predict(replace(work, engine=Engine(packs=False)), checkpointing=False).phase("rollout").components
    assert packed["packed weights"] == 4 * (model.shape.linear_parameters + 49152 * 576)
    assert plain["packed weights"] == 0
