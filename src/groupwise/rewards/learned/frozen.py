"""A model that scores and is never trained: its settings, its loading, and how rows of tokens become batches.

It has a tokenizer and a chat template of its own, which need not be the policy's. Its weights are checked to be all
there: transformers would make up a missing scoring layer at random. Nothing heavy is imported before it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from groupwise.errors import ModelError
from groupwise.rewards.base import RewardSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class FrozenSettings(RewardSettings):
    """A reward that a Hugging Face model gives."""

    model: str = Field(min_length=1)
    """A local folder or a name on the Hugging Face hub."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    """`auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:N`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of its weights and its forward pass. In bfloat16 it takes half the memory, and scores depend on what else is in
    the batch by about 1e-2."""
    input: Literal["chat", "text"] = "chat"
    """`chat`: a prompt that is a chat goes through the model's own chat template; `text`: the model reads the prompt as
    the policy does. A prompt that is no chat is read as text either way."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion together. What is longer is not scored; by default as long as the model can read."""
    batch_tokens: int = Field(default=16384, ge=1)
    """How many tokens, padding included, it reads at once; a longer row is read alone."""


@dataclass(frozen=True)
class Frozen:
    """The model with what belongs to it."""

    model: Any
    tokenizer: Any
    device: torch.device
    longest: int
    """The most tokens that it may read at once."""
    special_tokens: tuple[str, ...]
    """How its control tokens are spelled."""

    def batch(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Token ids and mask [rows, longest row], padded at the end, where a causal model can't see it."""
        import torch

        padding = self.model.config.get_text_config().pad_token_id or 0
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.device)
        return ids, mask


def load_frozen(settings: FrozenSettings, base: Path, auto_class: str) -> Frozen:
    """The model of `settings` through one of transformers' auto classes. Raises `ModelError`."""
    try:
        return _load(settings, base, auto_class)
    except ModelError as error:
        raise ModelError(f"reward {settings.shown!r}: {error.what}", fix=error.fix) from error


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Places of rows of these lengths, rows of like length together; rows times longest row keep to the budget."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if found and (len(found[-1]) + 1) * lengths[place] <= budget:  # this row is the longest so far
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _load(settings: FrozenSettings, base: Path, auto_class: str) -> Frozen:
    import torch
    import transformers

    from groupwise.models.devices import choose_device
    from groupwise.models.loading import load_tokenizer
    from groupwise.models.quiet import quiet
    from groupwise.models.settings import ModelSettings
    from groupwise.models.sources import check_hub, first_line, is_adapter, resolve

    local = base / Path(settings.model).expanduser()
    asked = ModelSettings(name=str(local) if local.is_dir() else settings.model, device=settings.device)
    source, device = resolve(asked.name), choose_device(asked)
    if is_adapter(source):
        raise ModelError(f"model {source} is an adapter", fix="merge it into its model and save the whole")
    check_hub(source)
    tokenizer = load_tokenizer(asked)
    try:
        with quiet():
            model, report = getattr(transformers, auto_class).from_pretrained(
                source, dtype=getattr(torch, settings.dtype), output_loading_info=True
            )
    except Exception as error:  # whatever damaged files provoke, the user must hear which model it was
        told = f"model {source} can't be loaded as {auto_class} ({type(error).__name__}: {first_line(error)})"
        raise ModelError(told, fix="give a model of that kind") from error
    for problem in ("missing_keys", "mismatched_keys"):
        if keys := sorted(map(str, report[problem])):
            told = f"model {source} has {len(keys)} {problem.removesuffix('_keys')} weights for {auto_class}, {keys[0]}"
            raise ModelError(told, fix="give a model that was trained to score")
    model.config.get_text_config().use_cache = False  # nothing is generated
    return Frozen(
        model.requires_grad_(False).to(device).eval(),
        tokenizer,
        device,
        _longest(model, tokenizer, settings.max_tokens),
        tuple(sorted({*tokenizer.all_special_tokens, *_added(tokenizer)})),
    )


def _added(tokenizer: Any) -> list[str]:
    return [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]


def _longest(model: Any, tokenizer: Any, asked: int | None) -> int:
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)  # some models have no limit
    return int(min(limit for limit in (asked, positions, tokenizer.model_max_length) if limit is not None))
