"""A whole plan: the table of the papers, what fits, and what the numbers of a job do to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupwise.errors import RunFileError
from groupwise.planning import catalogue, devices
from groupwise.planning.jobs import Job, Layout
from groupwise.planning.lengths import Lengths
from groupwise.planning.memory import predict
from groupwise.planning.plan import Plan, plan, to_json
from groupwise.planning.signal import KnownRates
from groupwise.training.planned import needs_of

NEEDS = needs_of()
SEED = {"ppo": 1680.0, "grpo": 840.0, "sft": 700.0, "dpo": 840.0, "dapo": 700.0}


def job(algorithm: str = "grpo", model: str = "smollm2-135m", **changes) -> Job:
    return Job(catalogue.find(model), algorithm, NEEDS[algorithm], Lengths(100, 200), **changes)


def planned(of: Job, **options) -> Plan:
    return plan(of, others=NEEDS, **options)


@pytest.mark.parametrize("algorithm", SEED)
def test_the_seed_s_table_to_the_digit(algorithm):
    found = planned(job(algorithm, "llama-70b", accounting="seed"))
    assert found.total == SEED[algorithm] * 1e9
    assert to_json(found)["total_gb"] == SEED[algorithm]
    assert {row.name: row.peak / 1e9 for row in found.algorithms if row.name in SEED} == SEED


def test_the_mixed_accounting_is_sixteen_bytes_and_two_for_what_is_frozen():
    parts = planned(job("grpo", "llama-70b", accounting="mixed", size=70 * 10**9)).components
    assert parts == {
        "weights": 140e9,
        "gradients": 140e9,
        "master weights": 280e9,
        "optimiser": 560e9,
        "reference": 140e9,
    }


def test_the_largest_micro_batch_fits_and_one_token_more_does_not():
    tight = job(layout=Layout(memory=6e9), prompt=100, samples=16, prompts=8)
    found = planned(tight)
    assert found.largest_micro_batch is not None and found.free == 6e9

    def fits(tokens: int) -> bool:
        return bool(planned(replace(tight, micro_batch_tokens=tokens)).fits)

    assert fits(found.largest_micro_batch) and not fits(found.largest_micro_batch + 1)


def test_checkpointing_is_planned_where_it_is_needed_and_where_it_is_asked_for():
    roomy, tight = (planned(job(layout=Layout(memory=memory))) for memory in (1e12, 5e9))
    assert (roomy.checkpointing, tight.checkpointing) == (False, True)
    assert planned(job(layout=Layout(memory=1e12), checkpointing=True)).checkpointing
    assert roomy.memory == predict(roomy.job.workload(), checkpointing=False)


def test_nothing_fits_into_too_little():
    found = planned(job(layout=Layout(memory=1e9)))
    assert found.fits is False and found.largest_micro_batch is None


def test_without_devices_nothing_is_said_of_fitting_or_of_time():
    found = planned(job())
    assert (found.fits, found.largest_micro_batch, found.times) == (None, None, None)


def test_several_devices_share_states_and_each_engine_has_room_for_its_cache():
    h100 = devices.find("h100")
    found = planned(job(model="qwen2.5-32b", accounting="fsdp-fp32", layout=Layout(h100, devices=16)))
    assert found.memory is not None and found.fits and found.times is not None
    assert found.job.engine.place == "colocated" and found.job.engine.tensor_parallel == 2
    update = found.memory.phase("update")
    assert update.devices == 16 and update.components["optimiser"] == round(8 * found.job.parameters / 16)
    alone = planned(job(model="qwen2.5-32b", accounting="fsdp-fp32", layout=Layout(h100)))
    assert alone.fits is False


def test_a_lever_is_what_the_plan_says_with_it():
    h100 = devices.find("h100")
    found = planned(job(model="qwen2.5-7b", accounting="fsdp-fp32", layout=Layout(h100, devices=8)))
    assert found.levers and found.times is not None
    assert [lever.factor for lever in found.levers] == sorted((lever.factor for lever in found.levers), reverse=True)
    assert found.levers[0].before == found.times


def test_no_lever_is_named_that_would_not_fit():
    h100 = devices.find("h100")
    of = job(model="qwen2.5-7b", accounting="fsdp-fp32", layout=Layout(h100, devices=8), micro_batch_tokens=16384)
    names = [lever.change for lever in planned(of).levers]
    assert names and not [name for name in names if "6 of 8 devices" in name or "no gradient checkpointing" in name]


def test_another_size_takes_time_in_proportion():
    h100 = devices.find("h100")
    of = job(model="qwen2.5-7b", accounting="fsdp-fp32", layout=Layout(h100, devices=8))
    plain, larger = planned(of).times, planned(replace(of, size=10 * of.parameters)).times
    assert plain is not None and larger is not None
    assert larger.phases["reference"] > 8 * plain.phases["reference"]


def test_pass_rates_say_what_is_trained_on():
    half = planned(job(), pass_rates=KnownRates((0.5,)))
    assert half.signal is not None
    assert half.signal.own.with_signal == pytest.approx(1 - 2 * 0.5**8)
    assert half.job.no_signal == pytest.approx(2 * 0.5**8)
    assert half.signal.refilling is None
    refilled = planned(job("dapo"), pass_rates=KnownRates((0.02,)))
    assert refilled.signal is not None and refilled.signal.refilling is not None
    assert refilled.job.no_signal == 0 and refilled.job.rounds == refilled.signal.refilling.rounds > 1
    assert planned(job("sft"), pass_rates=KnownRates((0.5,))).signal is None


def test_a_rate_that_leaves_no_room_asks_for_no_prompts():
    found = planned(job(), pass_rates=KnownRates((0.97,)))
    assert found.signal is not None and found.signal.prompts_to_see is None


def test_adapters_train_little_and_keep_the_whole_model():
    whole, adapted = planned(job()), planned(job(lora=8))
    shape = catalogue.find("smollm2-135m").shape
    assert adapted.job.trained == shape.lora_parameters(8)
    assert adapted.components["optimiser"] == 8 * shape.lora_parameters(8)
    assert adapted.components["weights"] > whole.components["weights"]


def test_several_devices_need_a_kind():
    with pytest.raises(RunFileError, match="several devices of no kind; name the kind with --gpu"):
        Layout(devices=4)
