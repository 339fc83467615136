"""LoRA adapters through peft, an optional extra.

Adapter layers are put into the transformers model in place, so everything that runs the model runs the
adapter; the peft wrapper around it serves saving and merging. Base weights are never written once training
begins.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from groupwise.errors import ModelError
from groupwise.models.quiet import quiet
from groupwise.models.settings import LoraSettings
from groupwise.models.sources import first_line

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

WEIGHTS = "adapter_model.safetensors"


def require_peft() -> None:
    """Raises `ModelError` where peft isn't installed."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise ModelError("LoRA needs the package peft", fix="pip install 'groupwise[lora]'") from error


def add_adapter(model: PreTrainedModel, settings: LoraSettings, seed: int) -> PeftModel:
    """Put a new adapter into the model: B is zero, so the model computes what it did before; A is drawn from
    `seed`."""
    require_peft()
    from peft import LoraConfig, TaskType

    targets = settings.target_modules
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=targets if isinstance(targets, str) else list(targets),
        task_type=TaskType.CAUSAL_LM,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _wrap(model, config)


def open_adapter(model: PreTrainedModel, folder: Path) -> PeftModel:
    """Put the adapter saved in `folder` into the model, ready to be trained further.

    Raises `ModelError` for other kinds of adapters, and for weights that don't fit exactly.
    """
    require_peft()
    from peft import LoraConfig, PeftConfig

    config = PeftConfig.from_pretrained(str(folder))
    if not isinstance(config, LoraConfig) or config.modules_to_save or config.bias != "none":
        raise ModelError(
            f"the adapter {folder} is not a plain LoRA (type {config.peft_type}, or more is trained)",
            fix="merge it into its model with peft and start from the merged folder",
        )
    config.inference_mode = False
    adapter = _wrap(model, config)
    load_adapter_weights(adapter, folder)
    return adapter


def _wrap(model: PreTrainedModel, config: Any) -> PeftModel:
    from peft import get_peft_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    try:
        with quiet():
            adapter = get_peft_model(model, config)
    except ValueError as error:
        linear = {name.rsplit(".", 1)[-1] for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
        raise ModelError(
            f"no adapter can be put on {config.target_modules!r} ({first_line(error)})",
            fix=f'set model.lora.target_modules to "all-linear" or to some of {", ".join(sorted(linear))}',
        ) from error
    for part in (model.get_input_embeddings(), model.get_output_embeddings()):
        if isinstance(part, BaseTunerLayer):
            raise ModelError(
                "adapters on the embedding or the output layer are not supported",
                fix='use target_modules = "all-linear", or name only layers between the two',
            )
    return adapter


def load_adapter_weights(adapter: PeftModel, folder: Path) -> None:
    """Replace the adapter's weights by those saved in `folder`, every one of them, or raise `ModelError`."""
    from peft import set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    try:
        result = set_peft_model_state_dict(adapter, load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:  # absent, damaged, of another shape
        raise ModelError(
            f"adapter weights {path} can't be loaded ({first_line(error)})",
            fix="use a complete adapter folder",
        ) from error
    missing = [key for key in result.missing_keys if "lora_" in key]
    if missing or result.unexpected_keys:
        example = (missing or result.unexpected_keys)[0]
        raise ModelError(
            f"adapter weights {path} don't fit the model: {len(missing)} are missing and "
            f"{len(result.unexpected_keys)} have no place, {example} for instance",
            fix="use the adapter with the model and the target modules that it was trained with",
        )


def merge(adapter: PeftModel) -> PreTrainedModel:
    """Add the adapter to the weights of the model that holds it, and take its layers out."""
    return adapter.merge_and_unload()


def merged(part: nn.Module) -> nn.Module:
    """A copy of a part of a model with the adapters in it, if any, added to its weights and taken out."""
    from peft.tuners.lora import LoraLayer

    whole = copy.deepcopy(part)
    for name, layer in list(whole.named_modules()):
        if not isinstance(layer, LoraLayer):
            continue
        layer.merge()
        parent, _, child = name.rpartition(".")
        setattr(whole.get_submodule(parent), child, layer.get_base_layer())
    return whole


def save_adapter(adapter: PeftModel, base: str, folder: Path) -> None:
    """Write the adapter alone, with `base` as the model that it belongs to."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    state = get_peft_model_state_dict(adapter, save_embedding_layers=False)
    save_file({name: value.contiguous().cpu() for name, value in state.items()}, folder / WEIGHTS, {"format": "pt"})
    config = copy.copy(adapter.peft_config["default"])
    config.base_model_name_or_path = base
    config.inference_mode = True
    if isinstance(config.target_modules, set):
        config.target_modules = sorted(config.target_modules)
    config.save_pretrained(str(folder))


def has_effect(adapter: PeftModel) -> bool:
    """Whether any adapter layer adds anything: B starts at zero, and an adapter that never learned stays
    there."""
    from peft.tuners.lora import LoraLayer

    layers = [part for part in adapter.modules() if isinstance(part, LoraLayer)]
    return any(
        bool(layer.lora_A["default"].weight.any()) and bool(layer.lora_B["default"].weight.any()) for layer in layers
    )
