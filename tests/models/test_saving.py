import stat

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from groupwise.errors import ModelError, RunFolderError
from groupwise.models import saving
from groupwise.models.loading import load_model
from groupwise.models.saving import export, save_model
from groupwise.models.settings import ModelSettings

IDS = torch.tensor([[3, 4, 13, 7, 17, 12]])
FILES = (
    "model.safetensors",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


@pytest.fixture
def loaded(model_folder):
    settings = ModelSettings(name=str(model_folder()), dtype="float32")
    loaded = load_model(settings, seed=0, say=lambda line: None)
    with torch.no_grad():
        for value in loaded.model.parameters():
            value.add_(torch.randn_like(value), alpha=0.1)
    return loaded


def test_a_saved_model_is_one_that_plain_transformers_loads(loaded, tmp_path):
    folder = tmp_path / "step-1"
    folder.mkdir()
    assert save_model(loaded, folder) == ()
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert torch.equal(model(IDS).logits, loaded.model(IDS).logits)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")  # tied: stored once
    assert model.generation_config.eos_token_id == 1
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("1+2=")["input_ids"] == loaded.tokenizer("1+2=")["input_ids"]
    assert tokenizer.pad_token_id == 0 and tokenizer.eos_token_id == 1


def test_an_export_is_complete_and_readable(loaded, tmp_path):
    folder = tmp_path / "deep" / "out"
    assert export(loaded, folder) == ()
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert torch.equal(AutoModelForCausalLM.from_pretrained(folder)(IDS).logits, loaded.model(IDS).logits)
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


def test_an_export_never_writes_over_anything(loaded, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for used in (tmp_path / "full", tmp_path / "full" / "notes.txt"):
        with pytest.raises(RunFolderError, match="already exists"):
            export(loaded, used)
    (tmp_path / "empty").mkdir()
    export(loaded, tmp_path / "empty")


@pytest.mark.parametrize("damage", [0.01, float("nan")])
def test_an_export_that_differs_is_not_kept(loaded, tmp_path, monkeypatch, damage):
    save_whole = saving._save_whole

    def save_another(model, folder):
        with torch.no_grad():
            model.get_input_embeddings().weight.add_(damage)
            save_whole(model, folder)
            model.get_input_embeddings().weight.sub_(damage).nan_to_num_()

    monkeypatch.setattr(saving, "_save_whole", save_another)
    with pytest.raises(ModelError, match="logits differ"):
        export(loaded, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))
    export(loaded, tmp_path / "unchecked", check=False)
