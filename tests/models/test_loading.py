import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from groupwise.errors import ModelError
from groupwise.models import devices
from groupwise.models.loading import load_model, load_tokenizer, load_weights, trainable_parameters
from groupwise.models.saving import save_model
from groupwise.models.settings import ModelSettings
from groupwise.models.sources import resolve

IDS = torch.tensor([[3, 4, 13, 7, 17, 12]])


def silent(line):
    pass


def load(folder, **settings):
    return load_model(ModelSettings(name=str(folder), dtype="float32", **settings), seed=0, say=silent)


def refusal(call, *words):
    """The one-line message of the ModelError that `call` raises; it must hold all words."""
    with pytest.raises(ModelError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and "; " in message
    for word in words:
        assert word in message, message
    return message


def test_a_full_model_trains_everything_in_float32_and_keeps_embeddings_tied(model_folder):
    folder = model_folder()
    said = []
    loaded = load_model(ModelSettings(name=str(folder), dtype="float32"), seed=0, say=said.append)
    assert loaded.source == str(folder) and loaded.adapter is None
    assert loaded.compute_dtype == torch.float32
    assert all(p.dtype == torch.float32 and p.requires_grad for p in loaded.model.parameters())
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight
    assert "lm_head.weight" not in trainable_parameters(loaded)
    assert set(trainable_parameters(loaded)) == {name for name, _ in loaded.model.named_parameters()}
    assert said == list(loaded.notes) and "float32" in said[0]


def test_weights_stored_in_bfloat16_are_trained_in_float32(model_folder):
    folder = model_folder()
    weights = {name: value.bfloat16() for name, value in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    loaded = load(folder)
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


def test_R074_dropout_is_off_so_two_forward_passes_agree(model_folder):
    loaded = load(model_folder(attention_dropout=0.5))
    assert not any(module.training for module in loaded.model.modules())
    assert torch.equal(loaded.model(IDS).logits, loaded.model(IDS).logits)
    loaded.model.train()
    assert not torch.equal(loaded.model(IDS).logits, loaded.model(IDS).logits)


def test_R048_stop_ids_are_all_that_any_of_the_three_places_names(model_folder):
    folder = model_folder()
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [9, 7]}))
    config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": 8}
    (folder / "config.json").write_text(json.dumps(config))
    assert load(folder).stop_ids == (1, 7, 8, 9)


def test_a_model_that_names_no_end_token_is_refused(model_folder):
    folder = model_folder()
    for file in ("config.json", "generation_config.json"):
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(content | {"eos_token_id": None}))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    del tokenizer["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    refusal(lambda: load(folder), "end-of-sequence", "generation_config.json")


def test_weights_of_a_checkpoint_replace_those_of_the_model(model_folder, tmp_path):
    folder = model_folder()
    trained = load(folder)
    for parameter in trained.model.parameters():
        parameter.data += torch.randn_like(parameter)
    checkpoint = tmp_path / "step-1"
    checkpoint.mkdir()
    save_model(trained, checkpoint)
    settings = ModelSettings(name=str(folder), dtype="float32")
    resumed = load_model(settings, seed=5, weights=checkpoint, say=silent)
    assert resumed.source == str(folder)
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    other = load(model_folder(folder="wide", hidden_size=64))
    refusal(lambda: load_weights(other, checkpoint), str(checkpoint), "resume with")


@pytest.mark.parametrize("problem", ["missing", "unexpected"])
def test_weights_that_are_missing_or_left_over_are_errors(model_folder, problem):
    folder = model_folder()
    weights = load_file(folder / "model.safetensors")
    moved = weights.pop("model.norm.weight") if problem == "missing" else weights["model.norm.weight"].clone()
    if problem == "unexpected":
        weights["model.layers.7.extra.weight"] = moved
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    name = "model.norm.weight" if problem == "missing" else "model.layers.7.extra.weight"
    refusal(lambda: load(folder), f"1 {problem} weights", name)


def test_a_damaged_weight_file_is_one_line(model_folder):
    folder = model_folder()
    (folder / "model.safetensors").write_bytes(b"not weights at all")
    refusal(lambda: load(folder), str(folder), "can't be loaded")


def test_a_quantised_model_is_refused(model_folder):
    folder = model_folder()
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    refusal(lambda: load(folder), "quantised")


def test_a_tokenizer_with_more_ids_than_the_model_embeds_is_refused(model_folder):
    refusal(lambda: load(model_folder(vocab_size=20)), "58", "embeds only 20")


def test_a_folder_that_does_not_exist_suggests_its_neighbour(model_folder, tmp_path):
    folder = model_folder(folder="qwen-small")
    settings = ModelSettings(name=str(tmp_path / "qwen-smal"))
    refusal(lambda: load_tokenizer(settings, silent), "doesn't exist", f"did you mean {folder}?")


def test_a_folder_without_config_names_the_model_inside_it(model_folder, tmp_path):
    folder = model_folder()
    settings = ModelSettings(name=str(tmp_path))
    refusal(lambda: load_tokenizer(settings, silent), "config.json", f"did you mean {folder}?")
    empty = tmp_path / "empty"
    empty.mkdir()
    refusal(lambda: resolve(str(empty)), str(empty), "Hugging Face layout")


def test_a_folder_without_tokenizer_is_an_error_and_not_an_empty_tokenizer(model_folder):
    folder = model_folder()
    for file in folder.glob("tokenizer*"):
        file.unlink()
    settings = ModelSettings(name=str(folder))
    refusal(lambda: load_tokenizer(settings, silent), str(folder), "no tokenizer", "save_pretrained")


def test_a_file_and_a_broken_tokenizer_are_one_line_errors(model_folder):
    folder = model_folder()
    refusal(lambda: resolve(str(folder / "config.json")), "is a file")
    (folder / "tokenizer.json").write_text("{")
    refusal(lambda: load_tokenizer(ModelSettings(name=str(folder)), silent), "tokenizer of", str(folder))


def test_a_hub_name_that_cannot_be_had_is_a_one_line_error(monkeypatch):
    from huggingface_hub import HfApi

    def unreachable(self, name, timeout):
        raise ConnectionError(f"no route to {name}\nand a second line")

    monkeypatch.setattr(HfApi, "model_info", unreachable)
    settings = ModelSettings(name="nobody/no-such-model-anywhere")
    refusal(lambda: load_tokenizer(settings, silent), "nobody/no-such-model-anywhere", "no route", "hub")


def test_a_relative_folder_is_remembered_by_its_absolute_path(model_folder, monkeypatch):
    folder = model_folder()
    monkeypatch.chdir(folder.parent)
    assert resolve("base") == str(folder)
    shutil.rmtree(folder)
    assert resolve("base") == "base"  # now only the hub can know it


@pytest.mark.parametrize(
    ("flags", "asked", "chosen"),
    [
        ({"avx2"}, "auto", torch.float32),
        ({"avx512_bf16"}, "auto", torch.bfloat16),
        ({"amx_bf16"}, "bfloat16", torch.bfloat16),
        ({"avx512_bf16"}, "float32", torch.float32),
    ],
)
def test_the_compute_dtype_follows_the_device_and_is_said(monkeypatch, flags, asked, chosen):
    monkeypatch.setattr(devices, "cpu_flags", lambda: flags)
    settings = ModelSettings(name="any", dtype=asked, device="cpu")
    dtype, note = devices.choose_compute_dtype(settings, devices.choose_device(settings))
    assert dtype == chosen
    assert str(chosen).removeprefix("torch.") in note


def test_bfloat16_without_the_instructions_and_a_missing_gpu_are_refused_before_loading(monkeypatch):
    monkeypatch.setattr(devices, "cpu_flags", lambda: {"avx2"})
    asked = ModelSettings(name="/nowhere", dtype="bfloat16", device="cpu")
    refusal(lambda: load_model(asked, seed=0, say=silent), "bfloat16", "float32")
    far = ModelSettings(name="/nowhere", device="cuda:63")
    refusal(lambda: load_model(far, seed=0, say=silent), "cuda:63", "GPUs")


def test_gpt2_loads_like_any_other(model_folder):
    loaded = load(model_folder("gpt2", attn_pdrop=0.3, resid_pdrop=0.3, embd_pdrop=0.3))
    assert torch.equal(loaded.model(IDS).logits, loaded.model(IDS).logits)
