"""Hidden states of groups from any transformers decoder: of whole groups, or of completions behind a shared prompt."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from groupwise.models.attention import Layout
from groupwise.models.packed import Packed, Suffix
from groupwise.types import Batch


def hidden_states(
    backbone: Any, token_ids: Tensor, positions: Tensor, layout: Layout, compute_dtype: torch.dtype
) -> Tensor:
    """token_ids, positions [T] -> last hidden states [T, h] of a decoder whose attention is groupwise's."""
    autocast: contextlib.AbstractContextManager = contextlib.nullcontext()
    if compute_dtype != torch.float32:
        autocast = torch.autocast(token_ids.device.type, dtype=compute_dtype)
    with autocast:
        output = backbone(input_ids=token_ids[None], position_ids=positions[None], use_cache=False, layout=layout)
    return output.last_hidden_state[0]


class SharedPrompt:
    """The prompt of a group whose completions are computed in parts: once forward, once backward, for each decoder.

    Completions reach their prompt only through its keys and values, and through the hidden state of its last token,
    which predicts their first. Each part works on cut-off copies of those, in which its gradients add up; `backward`
    takes the sums through the prompt. That is the chain rule in another order, so the gradient is that of the whole
    group, while no more than the prompt and one part is in memory.
    """

    def __init__(self) -> None:
        self._computed: dict[Any, _Prompt] = {}

    def hidden(self, backbone: Any, batch: Batch, compute_dtype: torch.dtype) -> Tensor:
        """[T, h] last hidden states of a part, which is the prompt with some of the completions. They are zero at
        prompt positions before the last, which predict nothing."""
        ((_, length),) = batch.prompt_spans
        if backbone not in self._computed:
            token_ids, positions = batch.token_ids[:length], batch.positions[:length]
            self._computed[backbone] = _Prompt.compute(backbone, token_ids, positions, compute_dtype)
        prompt = self._computed[backbone]
        hidden = prompt.last
        if batch.token_ids.numel() > length:
            spans = [(start - length, end - length) for start, end in batch.completion_spans]
            layout = Suffix(length, spans, prompt.layers, batch.token_ids.device)
            own = hidden_states(backbone, batch.token_ids[length:], batch.positions[length:], layout, compute_dtype)
            hidden = torch.cat([hidden.to(own.dtype), own])
        return F.pad(hidden, (0, 0, length - 1, 0))

    def backward(self) -> None:
        """Take what the parts' backward passes left at the prompt through the prompt itself."""
        for prompt in self._computed.values():
            reached = [tensor for tensor, copy in prompt.ends if copy.grad is not None]
            if reached:
                torch.autograd.backward(reached, [copy.grad for _, copy in prompt.ends if copy.grad is not None])
        self._computed.clear()


@dataclass
class _Prompt:
    """What one decoder makes of a prompt."""

    last: Tensor  # [1, h]; a copy without history, as are those of `layers`
    layers: dict[int, tuple[Tensor, Tensor]]  # key and value [KV, P, D]
    ends: list[tuple[Tensor, Tensor]]
    """Each tensor with its history, and its copy. In at least float32: rounding would grow with the number of parts."""

    @classmethod
    def compute(cls, backbone: Any, token_ids: Tensor, positions: Tensor, compute_dtype: torch.dtype) -> _Prompt:
        layout = Packed([(0, len(token_ids))], [[]], token_ids.device, keep=True)
        hidden = hidden_states(backbone, token_ids, positions, layout, compute_dtype)
        kept, layout.kept = layout.kept, None  # layers that are computed again in the backward pass keep nothing
        assert kept is not None
        ends: list[tuple[Tensor, Tensor]] = []

        def cut(tensor: Tensor) -> Tensor:
            wide = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
            copy = wide.detach().requires_grad_(wide.requires_grad)
            ends.append((wide, copy))
            return copy

        layers = {layer: (cut(key), cut(value)) for layer, ((key, value),) in kept.items()}
        return cls(cut(hidden[-1:]), layers, ends)


def group_hidden(backbone: Any, batch: Batch, compute_dtype: torch.dtype, prompt: SharedPrompt | None) -> Tensor:
    """[T, h] last hidden states of a batch of whole groups, or of a part of a group whose prompt is shared."""
    if prompt is not None:
        return prompt.hidden(backbone, batch, compute_dtype)
    return hidden_states(backbone, batch.token_ids, batch.positions, Packed.of(batch), compute_dtype)
