"""Classifiers with one label, Hugging Face's form of models that judge: a critic can start as one, or become one.

A reward model is a sequence classifier, whose score is read after the last token; a process reward model is a token
classifier, whose logits are read after the last token of each step. Both are a decoder and one linear layer; that of a
sequence classifier has no bias.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from groupwise.errors import ModelError
from groupwise.models import lora
from groupwise.models.quiet import quiet
from groupwise.models.saving import TOLERANCE, complete_folder, make_readable, plain_attention, save_tokenizer
from groupwise.models.sources import base_of, check_hub, first_line, is_adapter, resolve

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from groupwise.models.critic import Critic
    from groupwise.models.loading import LoadedModel

Judges = Literal["completions", "steps"]
"""What a model that judges gives its numbers to."""

SCORE_AT = "groupwise_score_at"
"""The key of a classifier's config.json that says where the reward `reward_model` reads a chat's score: after the token
that ends the answer's turn, with which written completions end here."""

OWN_STARTS = ("policy", "fresh")
"""Values of `critic.start` that name no classifier."""


def check_start(start: str, policy: str, say: Callable[[str], None]) -> None:
    """Raise `ModelError` where a critic of the model named `policy` can't start as `start`; reads no weights."""
    if start not in OWN_STARTS:
        _config_of(start, _policy_config(policy, say).get_text_config().vocab_size)


def check_judge(judges: Judges, policy: str, say: Callable[[str], None]) -> None:
    """Raise `ModelError` where transformers has no classifier to write the judge of this kind as; reads no weights."""
    _class_for(judges, _policy_config(policy, say))


def read_classifier(start: str, vocabulary: int) -> tuple[Any, Tensor, Tensor | None]:
    """Decoder, weight and bias (or None) of the classifier that `critic.start` names. Raises `ModelError`."""
    config = _config_of(start, vocabulary)
    try:
        with quiet():
            model, report = _class_of(config).from_pretrained(start, dtype=torch.float32, output_loading_info=True)
    except Exception as error:  # whatever a file or a hub provokes there, the user must hear which model it was
        raise _cannot_load(start, error) from error
    if missing := sorted(map(str, report["missing_keys"])):
        told = f"critic.start = {start!r} lacks {len(missing)} weights, {missing[0]} for instance"
        raise ModelError(told, fix="give a reward model's folder")
    head = _head(model)
    return model.base_model, head.weight.detach(), None if head.bias is None else head.bias.detach()


def export_judge(critic: Critic, loaded: LoadedModel, judges: Judges, folder: Path) -> tuple[str, ...]:
    """Write a critic that judges as a classifier with its tokenizer into a new folder; returns notes for the user.

    It is loaded again by plain transformers, and must give the numbers of the trained critic. Its padding token is one
    that ends no completion, since transformers reads a sequence's score before its last padding tokens. The folder is
    complete or absent. Raises `RunFolderError` where it is in use, `ModelError` where the check fails.
    """
    tokenizer = copy.deepcopy(loaded.tokenizer)
    notes = _set_padding(tokenizer, loaded.stop_ids)
    backbone = critic.backbone if loaded.adapter is None else lora.merged(critic.backbone)
    config = copy.deepcopy(critic.backbone.config)
    config.num_labels, config.pad_token_id = 1, tokenizer.pad_token_id
    config.update({SCORE_AT: "turn"})
    with quiet():
        model = _class_for(judges, config).from_config(config, attn_implementation="eager", dtype=torch.float32)
    model.base_model.load_state_dict(backbone.state_dict())
    head = _head(model)
    with torch.no_grad():
        head.weight.copy_(critic.head.weight)
        if head.bias is not None:
            head.bias.copy_(critic.head.bias)
    with complete_folder(folder) as aside:
        save_tokenizer(tokenizer, aside)
        with quiet():
            model.save_pretrained(aside, max_shard_size="1000TB")
        make_readable(aside)
        _check_export(critic, aside, loaded)
    return notes


def _set_padding(tokenizer: PreTrainedTokenizerBase, stop_ids: tuple[int, ...]) -> tuple[str, ...]:
    """Choose a padding token that ends no completion: the tokenizer's own, or another special token."""
    own = tokenizer.pad_token_id
    if own is not None and own not in stop_ids:
        return ()
    free = [token for token in sorted(tokenizer.all_special_ids) if token not in stop_ids]
    if free:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(free[0])
        return (f"padding token: {tokenizer.pad_token}, because {own} ends completions",) if own is not None else ()
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(stop_ids[0])
    return ("the tokenizer's only special tokens end completions, so padding is one of them: read scores by the mask",)


@torch.no_grad()
def _check_export(critic: Critic, folder: Path, loaded: LoadedModel) -> None:
    """Raise `ModelError` unless the classifier in `folder` gives the critic's numbers."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    ids = torch.arange(1, 33, device=loaded.device) * 7919 % len(loaded.tokenizer)
    ids = torch.cat([ids, ids.new_tensor([loaded.stop_ids[0]])])
    ids = ids[ids != config.pad_token_id][None]
    with plain_attention(critic.backbone):
        hidden = critic.backbone(input_ids=ids, use_cache=False).last_hidden_state[0].float()
    expected = critic.head(hidden)[:, 0]
    with quiet():
        model = _class_of(config).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    logits = model.to(loaded.device)(input_ids=ids, use_cache=False).logits.reshape(-1)
    expected = expected[-len(logits) :]  # a sequence has one number, after its last token
    gap = float((logits - expected).abs().max())
    if not gap <= TOLERANCE * max(1.0, float(expected.abs().max())):
        raise ModelError(
            f"the exported model's scores differ from the trained model's by {gap:.2g}, so it was not kept",
            fix="export on the machine and with the versions that trained it",
        )


def _policy_config(name: str, say: Callable[[str], None]) -> Any:
    """The configuration of the model that a run file names; of its base, where that is an adapter."""
    from transformers import AutoConfig

    source = resolve(name, say)
    source = resolve(base_of(source), say) if is_adapter(source) else source
    check_hub(source)
    with quiet():
        return AutoConfig.from_pretrained(source)


def _config_of(start: str, vocabulary: int) -> Any:
    """The configuration of a classifier with one label and this vocabulary. Raises `ModelError`."""
    from transformers import AutoConfig

    try:
        with quiet():
            check_hub(start)
            config = AutoConfig.from_pretrained(start)
    except Exception as error:  # whatever a file or a hub provokes there, the user must hear which model it was
        raise _cannot_load(start, error) from error
    if config.num_labels != 1:
        told = f"critic.start = {start!r} has {config.num_labels} labels"
        raise ModelError(told, fix="give a model with one, a reward model")
    if config.get_text_config().vocab_size != vocabulary:
        told = f"critic.start = {start!r} has another vocabulary than the policy"
        raise ModelError(told, fix="use one of its family")
    return config


def _class_of(config: Any) -> Any:
    """The automatic class that reads a classifier with this configuration."""
    from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

    of_tokens = any(name.endswith("ForTokenClassification") for name in config.architectures or ())
    return AutoModelForTokenClassification if of_tokens else AutoModelForSequenceClassification


def _class_for(judges: Judges, config: Any) -> Any:
    """The automatic class to write a judge as. Raises `ModelError` where transformers has none for this model."""
    from transformers import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
        MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
    )

    known, automatic, kind = {
        "completions": (MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification, "sequence"),
        "steps": (MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, AutoModelForTokenClassification, "token"),
    }[judges]
    if type(config) not in known:
        raise ModelError(
            f"transformers has no {kind} classifier for models of type {config.model_type}, so none can be trained",
            fix="train one of another architecture, Llama or Qwen for instance",
        )
    return automatic


def _head(model: PreTrainedModel) -> nn.Linear:
    """The one linear layer of a classifier outside its decoder."""
    layers = [layer for layer in model.children() if isinstance(layer, nn.Linear)]
    assert len(layers) == 1, f"{type(model).__name__} has {len(layers)} layers after its decoder"
    return layers[0]


def _cannot_load(start: str, error: Exception) -> ModelError:
    told = f"critic.start = {start!r} can't be loaded ({first_line(error)})"
    return ModelError(told, fix="give a reward model's folder")
