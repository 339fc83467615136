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

from groupwise.models.attention import NAME
from groupwise.models.classifiers import Judges, read_classifier
from groupwise.models.hidden import SharedPrompt, group_hidden
from groupwise.models.loading import LoadedModel
from groupwise.models.settings import CriticSettings
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
        backbone, weight, bias = read_classifier(settings.start, loaded.model.config.get_text_config().vocab_size)
        critic = cls(backbone.to(loaded.device).eval(), loaded.compute_dtype)
        with torch.no_grad():
            critic.head.weight.copy_(weight)
            if bias is not None:
                critic.head.bias.copy_(bias)
        return critic

    def judge(self, what: Judges | None) -> None:
        """Prepare for a stage. A judge of completions has no bias: preferences don't tell it, and a sequence classifier
        has no place for it."""
        self.head.bias.requires_grad_(what != "completions")
        if what == "completions":
            nn.init.zeros_(self.head.bias)

    def values(self, batch: Batch, prompt: SharedPrompt | None = None, *, after: bool = False) -> Tensor:
        """[T] values before (or after) each token of the loss mask, with gradient; zero elsewhere. `prompt`: for a part
        of a group."""
        hidden = group_hidden(self.backbone, batch, self.compute_dtype, prompt)
        where = batch.loss_mask.nonzero()[:, 0]
        read = where if after else predictors(batch)[where]
        values = self.head(hidden.index_select(0, read).float())[:, 0]
        return values.new_zeros(batch.token_ids.numel()).index_put((where,), values)

    def final_values(self, batch: Batch, prompt: SharedPrompt | None = None) -> Tensor:
        """[N] values after the last token of each completion; 0 for an empty one. `prompt`: for a part of a group."""
        hidden = group_hidden(self.backbone, batch, self.compute_dtype, prompt)
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
