"""A calibration gives rates that can be planned with; how large they are is the machine's affair."""

from __future__ import annotations

import time
from dataclasses import fields

import pytest
from transformers import LlamaConfig

from groupwise.models.settings import LoraSettings
from groupwise.planning.lengths import Lengths
from groupwise.planning.time import Fleet, Step, predict
from groupwise.training.calibration import calibrate

CONFIG = LlamaConfig(
    vocab_size=300,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)
PARAMETERS = 300 * 64 + 3 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 64


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
def test_rates_are_sane(lora):
    start = time.perf_counter()
    rates = calibrate(CONFIG, lora, seconds=1.0)
    assert time.perf_counter() - start < 60  # far above what it takes, for a machine that stands still
    adapters = 3 * 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
    assert rates.layers == 3 and rates.cached == 64
    assert rates.trained == (PARAMETERS if lora is None else adapters) == rates.critic_trained
    free = {"decode_own", "decode_prompt"} | ({"embedding"} if lora else set())  # too small to tell, or not there
    for field in fields(rates):
        value = getattr(rates, field.name)
        numbers = value.values() if isinstance(value, dict) else [value]
        assert all(number > 0 or (number == 0 and field.name in free) for number in numbers), field.name
    for name in (
        "layer_decode",
        "layer_decode_packed",
        "layer_forward",
        "layer_train",
        "layer_recomputed",
        "head_decode",
    ):
        sizes = list(getattr(rates, name))
        assert len(sizes) >= 3 and sizes == sorted(sizes)
    assert rates.layer_recomputed[256] > rates.layer_train[256] > rates.layer_forward[256]
    assert rates.head_train[256] > rates.head_forward[256]
    assert 1e8 < rates.operations < 1e14 and 1e8 < rates.bandwidth < 1e13


def test_a_step_can_be_planned_with_them():
    rates = calibrate(CONFIG, seconds=0.5)
    step = Step(prompts=2, samples=4, prompt=20, lengths=Lengths(10, 20))
    times = predict(step, Fleet(), rates, rates)
    assert set(times.phases) == {"prefill", "decode", "forward and backward", "optimiser"}
    assert predict(Step(2, 4, 20, Lengths(100, 200)), Fleet(), rates, rates).step > times.step


def test_an_output_layer_of_its_own_is_not_the_critics():
    apart = LlamaConfig(**{**CONFIG.to_dict(), "tie_word_embeddings": False})
    rates = calibrate(apart, seconds=0.2)
    assert rates.trained - rates.critic_trained == 300 * 64
    assert rates.critic_trained == PARAMETERS
