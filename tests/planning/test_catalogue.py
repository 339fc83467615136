"""Built-in shapes against published sizes and transformers, and models that are read from a config."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers as hf

from groupwise.errors import ModelError
from groupwise.planning.catalogue import MODELS, find, nominal_parameters
from groupwise.planning.rollout import kv_bytes
from groupwise.planning.shape import Shape

PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-1.7b": 1_711_376_384,
    "deepseek-math-7b": 6_910_365_696,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
}
"""Parameters as the hub counts those of the published weights."""


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters_are_those_of_the_published_weights(name, count):
    assert find(name).parameters == count


def test_names_say_about_how_many_parameters_there_are():
    assert find("llama-70b").nominal == 70 * 10**9 and find("smollm2-135m").nominal == 135 * 10**6
    for model in MODELS.values():
        assert 0.9 < model.parameters / model.nominal < 1.35, model.name
    assert nominal_parameters("some-model") is None


SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0,
}  # fmt: skip
LATENT = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6}
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 20}
CONFIGS = {
    "llama": hf.LlamaConfig(**SMALL),
    "mistral": hf.MistralConfig(**SMALL),
    "qwen2": hf.Qwen2Config(**SMALL),
    "qwen3": hf.Qwen3Config(**SMALL, head_dim=12),
    "qwen3-moe": hf.Qwen3MoeConfig(**SMALL, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=20),
    "gemma2": hf.Gemma2Config(**SMALL, head_dim=12),
    "gemma3": hf.Gemma3TextConfig(**SMALL, head_dim=12),
    "phi3": hf.Phi3Config(**SMALL),
    "gpt2": hf.GPT2Config(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=64),
    "deepseek": hf.DeepseekV3Config(**SMALL | {"num_key_value_heads": 4} | LATENT | EXPERTS, first_k_dense_replace=1),
}


@pytest.mark.parametrize("family", CONFIGS)
def test_the_count_of_every_family_is_that_of_transformers(family):
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(CONFIGS[family])
    # the numbers that balance experts are trained by a rule, so transformers has them as a buffer
    balancing = sum(buffer.numel() for name, buffer in model.named_buffers() if "correction_bias" in name)
    assert Shape.of(CONFIGS[family]).parameters == sum(part.numel() for part in model.parameters()) + balancing


def test_latent_attention_caches_one_vector_for_all_heads():
    shape = find("deepseek-v3").shape
    assert shape == Shape.of(hf.DeepseekV3Config())
    assert kv_bytes(shape, 2) == kv_bytes(shape, 2, tensor_parallel=8) == 61 * (512 + 64) * 2
    small = Shape.of(CONFIGS["deepseek"])
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(CONFIGS["deepseek"])
    linear = [
        part for name, part in model.model.layers.named_parameters() if part.ndim > 1 and "gate.weight" not in name
    ]
    assert small.linear_parameters == sum(part.numel() for part in linear)


@pytest.mark.parametrize(
    ("name", "built_in"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen2.5-Math-1.5B", "qwen2.5-1.5b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("deepseek-ai/deepseek-math-7b-rl", "deepseek-math-7b"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-3.8b"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3-671b"),
        ("builtin:smollm2-135m-instruct", "smollm2-135m"),
    ],
)
def test_hub_names_stand_for_their_shape(name, built_in):
    assert find(name) is MODELS[built_in]


@pytest.mark.parametrize("give", ["folder", "file"])
def test_any_config_is_read_without_weights(tmp_path, give):
    CONFIGS["qwen3"].save_pretrained(tmp_path)
    path = tmp_path if give == "folder" else tmp_path / "config.json"
    model = find(str(path))
    assert model.shape == Shape.of(CONFIGS["qwen3"]) and model.nominal == model.parameters == model.shape.parameters


def test_a_hub_name_is_read_from_the_local_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--thing-2b" / "snapshots" / "abc"
    CONFIGS["llama"].save_pretrained(snapshot)
    (tmp_path / "models--some--thing-2b" / "refs").mkdir()
    (tmp_path / "models--some--thing-2b" / "refs" / "main").write_text("abc")
    model = find("some/thing-2b")
    assert model.shape == Shape.of(CONFIGS["llama"]) and model.nominal == 2 * 10**9


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qwen2.5-9b", "did you mean qwen2.5-7b"),
        ("lama-70b", "did you mean llama-70b"),
        ("smollm2-135", "smollm2-135m"),
        ("some/nonsense", "a folder or a config.json"),
        ("no name//at all", "a folder or a config.json"),
        ("", "a folder or a config.json"),
    ],
)
def test_unknown_names_get_those_that_are_close(name, hint):
    with pytest.raises(ModelError, match=hint) as error:
        find(name)
    assert "\n" not in str(error.value) and repr(name) in str(error.value)


def test_what_is_no_config_is_refused_in_one_line(tmp_path: Path):
    with pytest.raises(ModelError, match="has no config.json"):
        find(str(tmp_path))
    for text in ("not json", json.dumps({"model_type": "no such type"}), json.dumps({"model_type": "vit"})):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelError, match="can't be read") as error:
            find(str(tmp_path))
        assert "\n" not in str(error.value)
