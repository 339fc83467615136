"""Critics that judge, written as classifiers and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, build, group_of, policy_of, random_groups
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from groupwise.errors import ModelError, RunFolderError
from groupwise.models import classifiers, tiny_char
from groupwise.models.classifiers import check_judge, check_start, export_judge
from groupwise.models.critic import Critic
from groupwise.models.loading import LoadedModel, load_model
from groupwise.models.settings import CriticSettings, LoraSettings, ModelSettings
from groupwise.packing import pack
from groupwise.types import Batch, Completion, Segment

SEQUENCES, TOKENS = "completions", "steps"
NO_CLASSIFIER = {"granite": (SEQUENCES, TOKENS), "cohere": (SEQUENCES, TOKENS), "gemma3": (TOKENS,), "olmo2": (TOKENS,)}
"""What transformers has no classifier for."""


def loaded_of(architecture: str, stop_ids: tuple[int, ...] = (1,)) -> LoadedModel:
    loaded = policy_of(build(architecture)).loaded
    return replace(loaded, tokenizer=tiny_char.tokenizer(tiny_char.vocabulary()), stop_ids=stop_ids)


def trained(loaded: LoadedModel, judges: Any = None) -> Critic:
    """A critic with weights of its own."""
    critic = Critic.build(CriticSettings(), loaded, seed=0)
    torch.manual_seed(3)
    with torch.no_grad():
        for value in critic.trainable():
            value.add_(torch.randn_like(value), alpha=0.05)
    critic.judge(judges)
    return critic


@torch.no_grad()
def plain_scores(folder: Path, batch: Batch, judges: str) -> torch.Tensor:
    """[T] after each token of each completion, or at last tokens alone, each completion run alone behind its prompt."""
    automatic = AutoModelForSequenceClassification if judges == SEQUENCES else AutoModelForTokenClassification
    model = automatic.from_pretrained(folder, attn_implementation="eager").eval()
    scores = torch.zeros(batch.token_ids.numel())
    for group, (start, end) in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
        prompt = batch.token_ids[slice(*batch.prompt_spans[group])]
        logits = model(input_ids=torch.cat([prompt, batch.token_ids[start:end]])[None], use_cache=False).logits
        if judges == SEQUENCES:
            scores[end - 1] = logits[0, 0]
        else:
            scores[start:end] = logits[0, len(prompt) :, 0]
    return scores


@pytest.mark.parametrize("judges", [SEQUENCES, TOKENS])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_export_gives_the_scores_of_the_critic(architecture: str, judges: Any, tmp_path: Path) -> None:
    loaded = loaded_of(architecture)
    critic = trained(loaded, judges)
    if judges in NO_CLASSIFIER.get(architecture, ()):
        with pytest.raises(ModelError, match="transformers has no .* classifier for models of type"):
            export_judge(critic, loaded, judges, tmp_path / "out")
        return
    export_judge(critic, loaded, judges, tmp_path / "out")
    groups = [group for group in random_groups() if all(one.token_ids for one in group.completions)]
    batch = pack(groups, temperature=1.0)
    with torch.no_grad():
        ours = critic.values(batch, after=True)
    expected = plain_scores(tmp_path / "out", batch, judges)
    where = expected != 0
    assert where.sum() == (len(batch.completion_spans) if judges == SEQUENCES else int(batch.loss_mask.sum()))
    torch.testing.assert_close(ours[where], expected[where], atol=1e-5, rtol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").pad_token_id == 0


def test_values_after_the_last_token_are_final_values() -> None:
    critic = trained(loaded_of("llama"))
    batch = pack([group for group in random_groups() if all(one.token_ids for one in group.completions)], temperature=1)
    with torch.no_grad():
        last = critic.values(batch, after=True)[[end - 1 for _, end in batch.completion_spans]]
        torch.testing.assert_close(last, critic.final_values(batch), atol=1e-6, rtol=1e-6)
        assert not torch.allclose(critic.values(batch), critic.values(batch, after=True))


@pytest.mark.parametrize("judges", [SEQUENCES, TOKENS])
def test_a_critic_starts_as_what_was_exported(judges: Any, tmp_path: Path) -> None:
    loaded = loaded_of("llama")
    critic = trained(loaded, judges)
    export_judge(critic, loaded, judges, tmp_path / "out")
    again = Critic.build(CriticSettings(start=str(tmp_path / "out")), loaded, seed=0)
    batch = pack(random_groups(), temperature=1.0)
    with torch.no_grad():
        assert torch.equal(critic.values(batch), again.values(batch))
    assert bool(again.head.bias) == (judges == TOKENS)


def test_a_judge_of_completions_has_no_bias_and_other_critics_do() -> None:
    critic = trained(loaded_of("llama"))
    assert critic.head.bias.item() != 0
    parameters = len(critic.trainable())
    critic.judge("completions")
    assert critic.head.bias.item() == 0 and len(critic.trainable()) == parameters - 1
    critic.judge(None)
    assert len(critic.trainable()) == parameters


def test_an_export_has_its_adapters_merged(model_folder: Any, tmp_path: Path) -> None:
    settings = ModelSettings(name=str(model_folder()), dtype="float32", lora=LoraSettings(rank=4))
    loaded = load_model(settings, seed=0, say=lambda line: None)
    plain = trained(load_model(settings, seed=0, say=lambda line: None))
    critic = trained(loaded, TOKENS)
    batch = pack([group_of("g", (3, 4), [Completion((Segment((5, 6, 1), None),), "stop")])], temperature=1.0)
    export_judge(critic, loaded, TOKENS, tmp_path / "out")
    with torch.no_grad():
        ours, same = critic.values(batch, after=True), plain.values(batch, after=True)
    assert torch.equal(ours, same), "exporting changes nothing of the critic"
    expected = plain_scores(tmp_path / "out", batch, TOKENS)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    assert any("lora_" in name for name in critic.state_dict())


@pytest.mark.parametrize(
    ("pad", "unknown", "expected"), [("<eos>", "<unk>", 2), (None, "<unk>", 2), ("<pad>", None, 0)]
)
def test_R068_padding_is_a_token_that_ends_no_completion(
    pad: str | None, unknown: str | None, expected: int, tmp_path: Path
) -> None:
    loaded = loaded_of("llama")
    loaded.tokenizer.pad_token, loaded.tokenizer.unk_token = pad, unknown  # type: ignore[assignment]
    critic = trained(loaded, SEQUENCES)
    notes = export_judge(critic, loaded, SEQUENCES, tmp_path / "out")
    assert bool(notes) == (pad == "<eos>")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert model.config.pad_token_id == expected == AutoTokenizer.from_pretrained(tmp_path / "out").pad_token_id
    rows = torch.tensor([[7, 8, 1, expected, expected], [7, 8, 9, 4, 1]])
    groups = [group_of("g", row[:1], [Completion((Segment(tuple(row[1:]), None),), "stop")]) for row in ((7, 8, 1),)]
    with torch.no_grad():
        scores = model(input_ids=rows, attention_mask=(rows != expected).long()).logits[:, 0]
        alone = critic.final_values(pack(groups, temperature=1.0))
    torch.testing.assert_close(scores[:1], alone, atol=1e-5, rtol=1e-5)


def test_where_every_special_token_ends_completions_the_user_hears_of_it(tmp_path: Path) -> None:
    loaded = loaded_of("llama", stop_ids=(0, 1, 2))
    notes = export_judge(trained(loaded, SEQUENCES), loaded, SEQUENCES, tmp_path / "out")
    assert "read scores by the mask" in notes[0]


def test_an_export_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = loaded_of("llama")
    critic = trained(loaded, SEQUENCES)
    monkeypatch.setattr(classifiers, "_check_export", _after(lambda: critic.head.weight.data.add_(1)))
    with pytest.raises(ModelError, match="the exported model's scores differ"):
        export_judge(critic, loaded, SEQUENCES, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def _after(change: Any) -> Any:
    plain = classifiers._check_export

    def check(*arguments: Any) -> None:
        change()
        plain(*arguments)

    return check


def test_an_export_never_writes_over_anything(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    loaded = loaded_of("llama")
    with pytest.raises(RunFolderError, match="not an empty folder"):
        export_judge(trained(loaded, SEQUENCES), loaded, SEQUENCES, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_starts_are_checked_by_their_configuration_alone(
    model_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = str(model_folder())
    loaded = load_model(ModelSettings(name=policy, dtype="float32"), seed=0, say=lambda line: None)
    good = tmp_path / "good"
    export_judge(trained(loaded, SEQUENCES), loaded, SEQUENCES, good)
    (good / "model.safetensors").unlink()
    for start in ("policy", "fresh", str(good)):
        check_start(start, policy, lambda line: None)
    with pytest.raises(ModelError, match="has 2 labels; give a model with one"):
        check_start(policy, policy, lambda line: None)
    with pytest.raises(ModelError, match=r"critic\.start = '.*nowhere' can't be loaded"):
        check_start(str(tmp_path / "nowhere"), policy, lambda line: None)
    other = str(model_folder(folder="other", vocab_size=80))
    with pytest.raises(ModelError, match="another vocabulary"):
        check_start(str(good), other, lambda line: None)
    with pytest.raises(ModelError, match=r"critic\.start = .* can't be loaded"):
        Critic.build(CriticSettings(start=str(good)), loaded, seed=0)


def test_whether_there_is_a_classifier_is_checked_by_the_configuration_alone(tmp_path: Path) -> None:
    build("olmo2").config.save_pretrained(tmp_path)
    check_judge(SEQUENCES, str(tmp_path), lambda line: None)
    with pytest.raises(ModelError, match="no token classifier for models of type olmo2, so none can be trained; train"):
        check_judge(TOKENS, str(tmp_path), lambda line: None)


def test_a_classifier_without_its_layer_is_refused(model_folder: Any, tmp_path: Path) -> None:
    """transformers would make up a random one."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig.from_pretrained(str(model_folder()), num_labels=1)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "headless")
    loaded = load_model(ModelSettings(name=str(tmp_path / "base"), dtype="float32"), seed=0, say=lambda line: None)
    with pytest.raises(ModelError, match="lacks 1 weights, score.weight for instance"):
        Critic.build(CriticSettings(start=str(tmp_path / "headless")), loaded, seed=0)
