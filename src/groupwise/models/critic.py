"""The critic of PPO and its descendants: a model of its own that says what reward is still to come.

It reads the same packed groups as the policy, the prompt once, through the same layouts. The value of token t is read
off the hidden state that predicts it: what is expected before the token is drawn.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from groupwise.errors import ModelError
from groupwise.models.attention import NAME, Packed
from groupwise.models.forward import hidden_states
from groupwise.models.loading import LoadedModel
from groupwise.models.quiet import quiet
from groupwise.models.settings import CriticSettings
from groupwise.models.sources import first_line
from groupwise.packing import predictors
from groupwise.types import Batch


class Critic(nn.Module):
    """A decoder without its output layer, and one linear layer to a number, which starts at zero."""

    def __init__(self, backbone: Any, compute_dtype: torch.dtype) -> None:
        super().__init__()
        backbone.set_attn_implementation(NAME)
        self.backbone, self.compute_dtype = backbone, compute_dtype
        parameter = next(backbone.parameters())
        self.head = nn.Linear(backbone.config.hidden_size, 1, device=parameter.device, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def build(cls, settings: CriticSettings, loaded: LoadedModel, seed: int) -> Critic:
        """The critic that `settings` asks for. Raises `ModelError`."""
        if settings.start == "policy":
            return cls(copy.deepcopy(loaded.model.base_model), loaded.compute_dtype)
        if settings.start == "fresh":
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                backbone = type(loaded.model.base_model)(loaded.model.config)
            return cls(backbone.to(loaded.device).eval(), loaded.compute_dtype)
        return cls._from_classifier(settings.start, loaded)

    @classmethod
    def _from_classifier(cls, name: str, loaded: LoadedModel) -> Critic:
        from transformers import AutoModelForSequenceClassification

        try:
            with quiet():
                model = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32)
        except Exception as error:  # whatever a file or a hub provokes there, the user must hear which model it was
            told = f"critic.start = {name!r} can't be loaded ({first_line(error)})"
            raise ModelError(told, fix="give a reward model's folder") from error
        if model.config.num_labels != 1:
            told = f"critic.start = {name!r} has {model.config.num_labels} labels"
            raise ModelError(told, fix="give a model with one, a reward model")
        if model.config.vocab_size != loaded.model.config.vocab_size:
            told = f"critic.start = {name!r} has another vocabulary than the policy"
            raise ModelError(told, fix="use one of its family")
        critic = cls(model.base_model.to(loaded.device).eval(), loaded.compute_dtype)
        with torch.no_grad():
            critic.head.weight.copy_(model.score.weight)
        return critic

    def values(self, batch: Batch) -> Tensor:
        """[T] values before each token of the loss mask, with gradient; zero elsewhere."""
        hidden = hidden_states(self.backbone, batch.token_ids, batch.positions, Packed.of(batch), self.compute_dtype)
        where = batch.loss_mask.nonzero()[:, 0]
        values = self.head(hidden.index_select(0, predictors(batch)[where]).float())[:, 0]
        return values.new_zeros(batch.token_ids.numel()).index_put((where,), values)

    def final_values(self, batch: Batch) -> Tensor:
        """[N] values after the last token of each completion; 0 for an empty one."""
        hidden = hidden_states(self.backbone, batch.token_ids, batch.positions, Packed.of(batch), self.compute_dtype)
        last = torch.tensor([end - 1 for _, end in batch.completion_spans], device=hidden.device)
        empty = torch.tensor([end == start for start, end in batch.completion_spans], device=hidden.device)
        return torch.where(empty, 0.0, self.head(hidden.index_select(0, last.clamp(min=0)).float())[:, 0])

    def trainable(self) -> list[nn.Parameter]:
        """What its optimiser moves: all weights, or with adapters those and the last layer."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def save(self, path: Path) -> None:
        """Write all weights to a safetensors file."""
        from safetensors.torch import save_file

        save_file({name: value.cpu().contiguous() for name, value in self.state_dict().items()}, path)

    def restore(self, path: Path) -> None:
        """Take weights that `save` wrote."""
        from safetensors.torch import load_file

        self.load_state_dict(load_file(path, device=str(self.head.weight.device)))
