"""The reference policy: what the KL term pulls towards.

It is the policy as it was handed over: a frozen copy of the trainable parameters, put in their place while
the reference runs. One rule covers every case. Full fine-tuning: the starting weights. A new adapter: B is
zero, so the model without it, an earlier merged adapter included. An adapter that is trained further: its
frozen copy. The reference runs through the very modules of the policy, so the KL at step 0 is exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from groupwise.errors import ModelError
from groupwise.models.loading import LoadedModel, trainable_parameters

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Reference:
    """A frozen copy of a model's trainable parameters, taken when it is made."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._frozen = {name: value.detach().clone() for name, value in trainable_parameters(loaded).items()}

    @contextmanager
    def model(self) -> Iterator[PreTrainedModel]:
        """The model with the reference's parameters, without gradients. Don't train or sample inside."""
        current = trainable_parameters(self._loaded)
        policy = {name: parameter.data for name, parameter in current.items()}
        with torch.no_grad():
            try:
                self._put(self._frozen)
                yield self._loaded.model
            finally:
                self._put(policy)

    def _put(self, values: dict[str, torch.Tensor]) -> None:
        for name, parameter in trainable_parameters(self._loaded).items():
            parameter.data = values[name]
        torch.clear_autocast_cache()  # it would go on serving the other policy's weights in bfloat16

    @torch.no_grad()
    def refresh(self, mixing: float) -> None:
        """reference <- mixing * policy + (1 - mixing) * reference; 1 is a copy."""
        for name, parameter in trainable_parameters(self._loaded).items():
            self._frozen[name].lerp_(parameter.detach(), mixing)

    def save(self, path: Path) -> None:
        """Write the frozen parameters to a safetensors file."""
        from safetensors.torch import save_file

        save_file({name: value.cpu().contiguous() for name, value in self._frozen.items()}, path)

    def restore(self, path: Path) -> None:
        """Take the frozen parameters from a file that `save` wrote."""
        from safetensors.torch import load_file

        saved = load_file(path, device=str(self._loaded.device))
        shapes = {name: value.shape for name, value in self._frozen.items()}
        if {name: value.shape for name, value in saved.items()} != shapes:
            raise ModelError(
                f"the reference in {path} is not one of {self._loaded.source}",
                fix="resume with the model and the adapter settings that the run was started with",
            )
        self._frozen = saved
