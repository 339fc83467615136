import pytest
import torch

from groupwise.errors import ModelError
from groupwise.models.loading import load_model, trainable_parameters
from groupwise.models.reference import Reference
from groupwise.models.settings import ModelSettings

IDS = torch.tensor([[3, 4, 13, 7, 17, 12]])


def load(folder):
    return load_model(ModelSettings(name=str(folder), dtype="float32"), seed=0, say=lambda line: None)


def disturb(loaded):
    with torch.no_grad():
        for value in trainable_parameters(loaded).values():
            value.add_(torch.randn_like(value), alpha=0.1)


def test_the_reference_stays_where_training_began_and_the_policy_comes_back_untouched(model_folder):
    loaded = load(model_folder())
    start = loaded.model(IDS).logits.detach()
    reference = Reference(loaded)
    with reference.model() as model:
        assert torch.equal(model(IDS).logits, start)
    disturb(loaded)
    moved = loaded.model(IDS).logits.detach()
    pointers = {name: value.data_ptr() for name, value in trainable_parameters(loaded).items()}
    with reference.model() as model:
        again = model(IDS).logits
        assert torch.equal(again, start) and not again.requires_grad
    assert torch.equal(loaded.model(IDS).logits, moved) and not torch.equal(moved, start)
    assert pointers == {name: value.data_ptr() for name, value in trainable_parameters(loaded).items()}
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight


def test_an_error_inside_gives_the_policy_back(model_folder):
    loaded = load(model_folder())
    reference = Reference(loaded)
    disturb(loaded)
    moved = loaded.model(IDS).logits
    with pytest.raises(RuntimeError), reference.model():
        raise RuntimeError
    assert torch.equal(loaded.model(IDS).logits, moved)


def test_a_gradient_recorded_before_the_reference_ran_is_right(model_folder):
    loaded = load(model_folder())
    reference = Reference(loaded)
    disturb(loaded)
    loaded.model(IDS, labels=IDS).loss.backward()
    expected = {name: value.grad.clone() for name, value in trainable_parameters(loaded).items()}
    loaded.model.zero_grad()
    loss = loaded.model(IDS, labels=IDS).loss
    with reference.model() as model:
        model(IDS)
    loss.backward()
    assert all(torch.equal(value.grad, expected[name]) for name, value in trainable_parameters(loaded).items())


def test_one_autocast_region_never_mixes_the_two(model_folder):
    loaded = load(model_folder())
    reference = Reference(loaded)
    with torch.autocast("cpu", torch.bfloat16):
        start = loaded.model(IDS).logits
    disturb(loaded)
    with torch.autocast("cpu", torch.bfloat16):
        moved = loaded.model(IDS).logits
        with reference.model() as model:
            assert torch.equal(model(IDS).logits, start)
        assert torch.equal(loaded.model(IDS).logits, moved)


def test_a_saved_reference_comes_back(model_folder, tmp_path):
    folder = model_folder()
    loaded = load(folder)
    disturb(loaded)
    stage_start = loaded.model(IDS).logits.detach()
    Reference(loaded).save(tmp_path / "reference.safetensors")
    resumed = load(folder)
    reference = Reference(resumed)
    reference.restore(tmp_path / "reference.safetensors")
    with reference.model() as model:
        assert torch.equal(model(IDS).logits, stage_start)
    other = Reference(load(model_folder(folder="wide", hidden_size=64)))
    with pytest.raises(ModelError, match="not one of"):
        other.restore(tmp_path / "reference.safetensors")
