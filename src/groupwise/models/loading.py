"""From a name to a model that can be trained: weights, adapters, tokenizer, stop ids, device, precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter

from groupwise.errors import ModelError
from groupwise.models import lora
from groupwise.models.checkpointing import decide, recompute_layers
from groupwise.models.devices import choose_compute_dtype, choose_device, free_memory
from groupwise.models.quiet import quiet
from groupwise.models.settings import ModelSettings
from groupwise.models.sources import (
    base_of,
    check_folder,
    check_hub,
    first_line,
    is_adapter,
    resolve,
    tokenizer_source,
)
from groupwise.planning.checkpointing import Demand

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Say = Callable[[str], None]


@dataclass
class LoadedModel:
    """A causal LM with all that belongs to it. It stays in eval mode: dropout is off in sampling and in
    training."""

    model: PreTrainedModel
    """The transformers model itself; adapter layers are inside it."""
    adapter: PeftModel | None
    """peft's wrapper around the same model, when adapters are trained."""
    tokenizer: PreTrainedTokenizerBase
    stop_ids: tuple[int, ...]
    """Every id that ends a completion, sorted."""
    source: str
    """The folder or hub name that the model came from."""
    device: torch.device
    compute_dtype: torch.dtype
    """float32, or bfloat16 (under autocast; weights stay in float32)."""
    notes: tuple[str, ...]
    """What was decided on the way, for the user to read."""
    adapter_base: str = ""
    """What an adapter-only checkpoint says that it belongs to."""
    checkpointing: bool = False
    """Whether layers are computed again in the backward pass."""


def load_tokenizer(settings: ModelSettings, say: Say = print) -> PreTrainedTokenizerBase:
    """The model's tokenizer, without loading any weights. Raises `ModelError`."""
    from transformers import AutoTokenizer

    source = tokenizer_source(resolve(settings.name, say))
    check_hub(source)
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(source)
    except Exception as error:  # whatever damaged files provoke, the user must hear which model it was
        raise _cannot_load("the tokenizer of", source, error) from error


def load_model(
    settings: ModelSettings,
    *,
    seed: int,
    weights: Path | None = None,
    say: Say = print,
    demands: Sequence[Demand] = (),
) -> LoadedModel:
    """Load the model, with the weights of a checkpoint folder where one is given.

    A folder with an adapter continues that adapter; with `settings.lora` the old adapter is merged into the
    weights in memory and a new one is put on top, its start drawn from `seed`. `demands` say what the stages of a run
    make of it; none where nothing is trained. Raises `ModelError`.
    """
    device = choose_device(settings)
    free = free_memory(device)
    compute_dtype, note = choose_compute_dtype(settings, device)
    if settings.lora is not None:
        lora.require_peft()
    tokenizer = load_tokenizer(settings, say)
    source = resolve(settings.name, say)
    notes = [f"model {settings.name}: {note}"]
    model, adapter, adapter_base = _with_adapter(settings, source, seed, notes, say)
    _check_vocabulary(model, tokenizer, source)
    checkpointing, why = decide(settings.gradient_checkpointing, model, compute_dtype, demands, free)
    if checkpointing:
        recompute_layers(model)
    notes += why
    loaded = LoadedModel(
        model=model.to(device).eval(),
        adapter=adapter,
        tokenizer=tokenizer,
        stop_ids=find_stop_ids(model, tokenizer),
        source=source,
        device=device,
        compute_dtype=compute_dtype,
        notes=(),
        adapter_base=adapter_base,
        checkpointing=checkpointing,
    )
    if weights is not None:
        load_weights(loaded, weights)
    trained = sum(parameter.numel() for parameter in trainable_parameters(loaded).values())
    total = sum(parameter.numel() for parameter in model.parameters())
    notes.append(f"training {trained:,} of {total:,} parameters")
    for line in notes:
        say(line)
    loaded.notes = tuple(notes)
    return loaded


def _with_adapter(
    settings: ModelSettings, source: str, seed: int, notes: list[str], say: Say
) -> tuple[PreTrainedModel, PeftModel | None, str]:
    """The model of `source`, the adapter in it that is to be trained, and the name of the adapter's base."""
    if not is_adapter(source):
        model = read_model(source)
        adapter = None if settings.lora is None else lora.add_adapter(model, settings.lora, seed)
        return model, adapter, source
    lora.require_peft()
    base = resolve(base_of(source), say)
    model = read_model(base)
    adapter = lora.open_adapter(model, Path(source))
    if settings.lora is None:
        notes.append(f"going on with the adapter in {source}, on {base}")
        return model, adapter, base
    model = lora.merge(adapter)
    notes.append(f"the adapter in {source} is merged into {base} in memory, and a new one trained on top")
    return model, lora.add_adapter(model, settings.lora, seed), f"{base} with the adapter of {source} merged"


def read_model(source: str) -> PreTrainedModel:
    """The causal LM of a folder or hub name in float32 on the CPU; every weight found, none left over."""
    from transformers import AutoConfig, AutoModelForCausalLM

    check_folder(source)
    check_hub(source)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(source)
            if "quantization_config" in config.to_dict():
                raise ModelError(
                    f"model {source} is quantised, and rounded weights can't be trained",
                    fix="use the model that it was made from",
                )
            model, report = AutoModelForCausalLM.from_pretrained(
                source, config=config, dtype=torch.float32, output_loading_info=True
            )
    except ModelError:
        raise
    except Exception as error:  # whatever damaged files provoke, the user must hear which model it was
        raise _cannot_load("model", source, error) from error
    if model._hf_peft_config_loaded:
        raise ModelError(f"model {source} is an adapter on the hub", fix="download it and give its folder")
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if keys := sorted(str(key) for key in report[problem]):
            kind = problem.removesuffix("_keys")
            raise ModelError(
                f"model {source} has {len(keys)} {kind} weights, {keys[0]} for instance",
                fix="get its folder again, or use the class of model that it was saved from",
            )
    return model


def load_weights(loaded: LoadedModel, folder: Path) -> None:
    """Replace the weights in place, or the adapter's where one is trained, by those saved in `folder`."""
    if loaded.adapter is not None:
        return lora.load_adapter_weights(loaded.adapter, folder)
    saved = read_model(str(folder)).state_dict()
    with torch.no_grad():
        for name, value in loaded.model.state_dict().items():
            if name not in saved or saved[name].shape != value.shape:
                raise ModelError(
                    f"the weights in {folder} are not those of {loaded.source} ({name} differs)",
                    fix="resume with the model that the run was started with",
                )
            value.copy_(saved[name])


def trainable_parameters(loaded: LoadedModel) -> dict[str, Parameter]:
    """The parameters that training changes, by name: all of them, or the adapter's alone."""
    return {name: value for name, value in loaded.model.named_parameters() if value.requires_grad}


def find_stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every end-of-sequence id that the generation config, the config or the tokenizer names.

    Raises `ModelError` where there is none, since no completion could ever end.
    """
    found: set[int] = set()
    config = model.config.get_text_config()
    for ids in (model.generation_config.eos_token_id, config.eos_token_id, tokenizer.eos_token_id):
        found.update([] if ids is None else [ids] if isinstance(ids, int) else ids)
    if not found:
        raise ModelError(
            f"model {model.name_or_path} names no end-of-sequence token, so no completion could end",
            fix='set "eos_token_id" in its generation_config.json',
        )
    return tuple(sorted(found))


def _check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str) -> None:
    rows = model.get_input_embeddings().weight.shape[0]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise ModelError(
            f"the tokenizer of {source} has ids up to {largest}, but the model embeds only {rows}",
            fix="use the tokenizer that belongs to the model, or resize the model's embedding and save it",
        )


def _cannot_load(what: str, source: str, error: Any) -> ModelError:
    return ModelError(
        f"{what} {source} can't be loaded ({type(error).__name__}: {first_line(error)})",
        fix="get the model again, or use the versions of transformers and tokenizers that it was made with",
    )
