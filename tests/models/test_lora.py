import copy
import json
import sys

import pytest
import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from groupwise.errors import ModelError
from groupwise.models.forward import Forward
from groupwise.models.loading import load_model, trainable_parameters
from groupwise.models.reference import Reference
from groupwise.models.saving import export, save_model
from groupwise.models.settings import LoraSettings, ModelSettings

IDS = torch.tensor([[3, 4, 13, 7, 17, 12, 5, 6]])
RANK_4 = LoraSettings(rank=4, alpha=8)


def silent(line):
    pass


def load(folder, lora=RANK_4, seed=0, weights=None, **settings):
    whole = ModelSettings(name=str(folder), dtype="float32", lora=lora, **settings)
    return load_model(whole, seed=seed, weights=weights, say=silent)


def train(loaded, steps=3, rate=1.0):
    """A few large steps of plain gradient descent on the log-likelihood of IDS."""
    parameters = list(trainable_parameters(loaded).values())
    optimiser = torch.optim.SGD(parameters, lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loaded.model(input_ids=IDS, labels=IDS).loss.backward()
        optimiser.step()


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS).logits


def gap(a, b):
    return float((a - b).abs().max())


def base_weights(loaded):
    return {name: value.clone() for name, value in loaded.model.state_dict().items() if "lora_" not in name}


@pytest.fixture
def adapter_folder(model_folder, tmp_path):
    """A trained rank-4 adapter, written by plain peft on a tiny model, with a dropout of its own."""
    base = model_folder()
    torch.manual_seed(3)
    config = LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.2, target_modules=["q_proj", "v_proj"], init_lora_weights=False
    )
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    model.save_pretrained(tmp_path / "first")
    return tmp_path / "first"


def test_only_adapters_are_trained_and_a_new_one_changes_nothing(model_folder):
    folder = model_folder()
    loaded = load(folder)
    names = list(trainable_parameters(loaded))
    assert names and all("lora_" in name for name in names)
    assert {name.split(".lora_")[0].rsplit(".", 1)[1] for name in names} == {
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    }
    assert torch.equal(logits(loaded.model), logits(load(folder, lora=None).model))
    assert loaded.adapter.base_model.model is loaded.model


def test_the_start_of_an_adapter_depends_on_its_seed_alone(model_folder):
    folder = model_folder()
    state = torch.random.get_rng_state()
    first, again, other = (trainable_parameters(load(folder, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_R017_a_saved_adapter_and_a_merged_export_behave_like_the_trained_model(model_folder, tmp_path, kind):
    folder = model_folder(kind)
    loaded = load(folder)
    train(loaded)
    trained, base = logits(loaded.model), logits(AutoModelForCausalLM.from_pretrained(folder))
    assert gap(trained, base) > 1e-3
    saved = tmp_path / "adapter"
    saved.mkdir()
    assert save_model(loaded, saved) == ()
    assert export(loaded, tmp_path / "merged") == ()
    by_transformers = AutoModelForCausalLM.from_pretrained(saved)
    by_peft = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), saved)
    for model in (
        by_transformers,
        by_peft,
        AutoPeftModelForCausalLM.from_pretrained(saved),
        AutoModelForCausalLM.from_pretrained(tmp_path / "merged"),
    ):
        assert gap(logits(model), trained) < 1e-4
    assert AutoTokenizer.from_pretrained(saved)("1+2=")["input_ids"] == loaded.tokenizer("1+2=")["input_ids"]


def test_R017_an_adapter_without_effect_is_reported(model_folder, tmp_path):
    loaded = load(model_folder())
    saved = tmp_path / "adapter"
    saved.mkdir()
    for notes in (save_model(loaded, saved), export(loaded, tmp_path / "merged")):
        assert len(notes) == 1 and "changes nothing" in notes[0]


def test_a_checkpoint_holds_the_adapter_alone_and_resumes_exactly(model_folder, tmp_path):
    folder = model_folder()
    loaded = load(folder)
    train(loaded)
    saved = tmp_path / "adapter"
    saved.mkdir()
    save_model(loaded, saved)
    names = {path.name for path in saved.iterdir()}
    assert names == {*("adapter_model.safetensors", "adapter_config.json", "tokenizer.json", "tokenizer_config.json")}
    assert json.loads((saved / "adapter_config.json").read_text())["base_model_name_or_path"] == str(folder)
    resumed = load(folder, seed=9, weights=saved)
    assert torch.equal(logits(resumed.model), logits(loaded.model))
    before = trainable_parameters(loaded)
    assert all(torch.equal(value, before[name]) for name, value in trainable_parameters(resumed).items())


def test_R045_training_that_began_from_an_adapter_has_its_frozen_copy_as_reference(adapter_folder, model_folder):
    loaded = load(adapter_folder, lora=None)
    start, base = logits(loaded.model), logits(AutoModelForCausalLM.from_pretrained(model_folder()))
    assert gap(start, base) > 1e-2
    reference = Reference(loaded)
    with reference.model() as model:
        assert torch.equal(logits(model), start)  # KL at step 0 is exactly zero
    names = list(trainable_parameters(loaded))
    assert names and all("lora_" in name for name in names)
    train(loaded)
    trained = logits(loaded.model)
    assert gap(trained, start) > 1e-3
    with reference.model() as model:
        assert torch.equal(logits(model), start)
    assert torch.equal(logits(loaded.model), trained)


def test_R045_a_new_adapter_on_a_trained_one_has_the_first_in_its_reference(adapter_folder):
    first = logits(load(adapter_folder, lora=None).model)
    loaded = load(adapter_folder)
    assert gap(logits(loaded.model), first) < 1e-5
    assert {value.shape[0] for name, value in trainable_parameters(loaded).items() if "lora_A" in name} == {4}
    reference = Reference(loaded)
    train(loaded)
    assert gap(logits(loaded.model), first) > 1e-3
    with reference.model() as model:
        assert gap(logits(model), first) < 1e-5


def test_a_new_adapter_on_a_trained_one_is_saved_so_that_no_wrong_model_can_come_of_it(adapter_folder, tmp_path):
    loaded = load(adapter_folder)
    train(loaded)
    saved = tmp_path / "second"
    saved.mkdir()
    save_model(loaded, saved)
    resumed = load(adapter_folder, weights=saved)
    assert torch.equal(logits(resumed.model), logits(loaded.model))
    with pytest.raises(ModelError, match="merged"):
        load(saved, lora=None)
    with pytest.raises((OSError, ValueError)):
        AutoPeftModelForCausalLM.from_pretrained(saved)
    export(loaded, tmp_path / "merged")
    assert gap(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "merged")), logits(loaded.model)) < 1e-4


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_R072_gradient_checkpointing_gives_adapters_the_same_gradients(model_folder, kind):
    folder = model_folder(kind)
    gradients = []
    for recompute in (False, True):
        loaded = load(folder, gradient_checkpointing=recompute)
        train(loaded, steps=1)  # with B still zero, A has no gradient
        loaded.model.zero_grad()
        runs = []
        layer = next(module for name, module in loaded.model.named_modules() if name.endswith(".mlp"))
        layer.register_forward_pre_hook(lambda *_, runs=runs: runs.append(1))
        loaded.model(input_ids=IDS, labels=IDS).loss.backward()
        assert len(runs) == (2 if recompute else 1)
        gradients.append({name: value.grad for name, value in trainable_parameters(loaded).items()})
    plain, recomputed = gradients
    for name, gradient in plain.items():
        assert gradient.abs().max() > 0, name
        assert gap(gradient, recomputed[name]) < 1e-5, name


def test_R072_gradient_checkpointing_leaves_sampling_its_cache(model_folder):
    folder = model_folder()
    options = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
    plain = load(folder, lora=None).model.generate(IDS, **options)
    loaded = load(folder, lora=None, gradient_checkpointing=True)
    lengths = []
    loaded.model.model.layers[0].mlp.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    assert torch.equal(loaded.model.generate(IDS, **options), plain)
    assert lengths == [8, 1, 1, 1, 1]


def test_R072_a_copy_of_a_model_with_gradient_checkpointing_runs_its_own_layers(model_folder):
    loaded = load(model_folder(), gradient_checkpointing=True)
    twin = copy.deepcopy(loaded.model)
    twin.model.layers[0].mlp.down_proj.base_layer.weight.data += 1
    assert gap(logits(twin), logits(loaded.model)) > 1e-3


def test_R074_an_adapters_own_dropout_is_off(adapter_folder):
    loaded = load(adapter_folder, lora=None)
    assert json.loads((adapter_folder / "adapter_config.json").read_text())["lora_dropout"] == 0.2
    assert torch.equal(logits(loaded.model), logits(loaded.model))
    loaded.model.train()
    assert not torch.equal(logits(loaded.model), logits(loaded.model))


def test_R092_base_weights_are_never_written(model_folder, tmp_path):
    loaded = load(model_folder())
    before = base_weights(loaded)
    reference = Reference(loaded)
    for cycle in range(3):
        train(loaded, steps=1)
        export(loaded, tmp_path / f"merged-{cycle}")
        with reference.model() as model:
            logits(model)
    after = base_weights(loaded)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_export_works_on_a_model_whose_attention_was_replaced(model_folder, tmp_path):
    loaded = load(model_folder(), gradient_checkpointing=True)
    train(loaded)
    trained = logits(loaded.model)
    Forward(loaded.model, torch.float32)
    implementation = loaded.model.config._attn_implementation
    export(loaded, tmp_path / "merged")
    assert loaded.model.config._attn_implementation == implementation
    assert gap(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "merged")), trained) < 1e-4


def test_without_peft_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModelError, match=r"pip install 'groupwise\[lora\]'"):
        load("/nowhere")


@pytest.mark.parametrize(
    ("targets", "words"),
    [(("query",), "q_proj"), (("q_proj", "embed_tokens"), "not supported"), (("lm_head",), "not supported")],
)
def test_layers_that_cannot_take_an_adapter_are_refused(model_folder, targets, words):
    with pytest.raises(ModelError, match=words) as caught:
        load(model_folder(), lora=LoraSettings(target_modules=targets))
    assert "\n" not in str(caught.value)


def test_an_adapter_that_does_not_fit_its_model_is_refused(adapter_folder, model_folder):
    config = json.loads((adapter_folder / "adapter_config.json").read_text())
    path = adapter_folder / "adapter_config.json"
    path.write_text(json.dumps(config | {"target_modules": ["q_proj", "k_proj", "v_proj"]}))
    with pytest.raises(ModelError, match="4 are missing"):
        load(adapter_folder, lora=None)
    path.write_text(json.dumps(config | {"r": 8}))
    with pytest.raises(ModelError, match="can't be loaded"):
        load(adapter_folder, lora=None)
    path.write_text(json.dumps(config | {"base_model_name_or_path": None}))
    with pytest.raises(ModelError, match="doesn't say which model"):
        load(adapter_folder, lora=None)
    path.write_text(json.dumps(config | {"modules_to_save": ["lm_head"]}))
    with pytest.raises(ModelError, match="not a plain LoRA"):
        load(adapter_folder, lora=None)
