"""Writing models in the standard Hugging Face layout: whole, adapter alone, or merged for others to use."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from groupwise.errors import ModelError, RunFolderError
from groupwise.models import lora
from groupwise.models.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from groupwise.models.loading import LoadedModel

TOLERANCE = 1e-4
"""Largest difference of logits or scores, exported against trained, relative to the largest logit where that exceeds 1.
"""
ZERO_EFFECT = "the adapter changes nothing: the saved model behaves as its base does"


def save_model(loaded: LoadedModel, folder: Path) -> tuple[str, ...]:
    """Write weights, configuration and tokenizer into an existing folder; returns notes for the user.

    Whole models get `model.safetensors` in one file, adapters `adapter_model.safetensors` alone; plain
    `AutoModelForCausalLM.from_pretrained(folder)` loads either.
    """
    save_tokenizer(loaded.tokenizer, folder)
    if loaded.adapter is None:
        _save_whole(loaded.model, folder)
        return ()
    lora.save_adapter(loaded.adapter, loaded.adapter_base, folder)
    make_readable(folder)
    return () if lora.has_effect(loaded.adapter) else (ZERO_EFFECT,)


def export(loaded: LoadedModel, folder: Path, *, check: bool = True) -> tuple[str, ...]:
    """Write a plain model into a new folder, adapters merged in a copy; returns notes for the user.

    With `check` it is loaded again by plain transformers, and must give the logits of the trained model
    within `TOLERANCE`. The folder is complete or absent. Raises `RunFolderError` where it is in use,
    `ModelError` where the check fails.
    """
    with complete_folder(folder) as aside:
        save_tokenizer(loaded.tokenizer, aside)
        merged = loaded.model if loaded.adapter is None else lora.merge(copy.deepcopy(loaded.adapter))
        _save_whole(merged, aside)
        if check:
            check_export(loaded, aside)
    return () if loaded.adapter is None or lora.has_effect(loaded.adapter) else (ZERO_EFFECT,)


@contextmanager
def complete_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `folder` once the block is done, or never. Raises `RunFolderError` where that is
    in use."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunFolderError(f"{folder} already exists and is not an empty folder", fix="export to a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield aside
        aside.chmod(0o755)
        aside.replace(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _save_whole(model: PreTrainedModel, folder: Path) -> None:
    with quiet():
        model.save_pretrained(folder, max_shard_size="1000TB")
    make_readable(folder)


def check_export(loaded: LoadedModel, folder: Path) -> None:
    """Raises `ModelError` unless the model in `folder` gives the same logits as the trained one."""
    from transformers import AutoModelForCausalLM

    vocabulary = len(loaded.tokenizer)
    ids = (torch.arange(1, 33, device=loaded.device) * 7919 % vocabulary)[None]
    expected = _logits(loaded.model, ids)
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    exported = _logits(model.to(loaded.device), ids)
    gap = float((exported - expected).abs().max())
    if not gap <= TOLERANCE * max(1.0, float(expected.abs().max())):
        raise ModelError(
            f"the exported model's logits differ from the trained model's by {gap:.2g}, so it was not kept",
            fix="export on the machine and with the versions that trained it",
        )


@torch.no_grad()
def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    with plain_attention(model):
        return model(input_ids=ids, use_cache=False).logits.float()


@contextmanager
def plain_attention(model: PreTrainedModel) -> Iterator[None]:
    """Run the model on ordinary inputs, though its attention may have been replaced for packed groups."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the tokenizer's files so that other versions of transformers read them too."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    if settings.get("tokenizer_class") == "TokenizersBackend":  # a name that only some releases know
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    make_readable(folder)


def make_readable(folder: Path) -> None:
    """Give every file mode 0644: safetensors creates its files readable by their owner alone."""
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o644)
