"""The policy: a loaded model with its tokenizer, its stop ids and its packed forward."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from groupwise.models.forward import Forward, check_packing
from groupwise.models.loading import LoadedModel


@dataclass
class Policy:
    """What engines sample from and the update trains."""

    loaded: LoadedModel
    forward: Forward

    @classmethod
    def of(cls, loaded: LoadedModel) -> Policy:
        """Prepare a loaded model; raises `ModelError` where its architecture can't run on packed groups."""
        check_packing(loaded.model)
        return cls(loaded, Forward(loaded.model, loaded.compute_dtype))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's own."""
        return self.loaded.tokenizer

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Every id that ends a completion."""
        return self.loaded.stop_ids

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return self.loaded.device
