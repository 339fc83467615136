"""One attention function for sampling and training: the structure of groups, carried by a layout object.

transformers lets a program register an attention function by name, and hands extra keyword arguments of a model's
forward to it. Every other layer of the model sees one packed token axis [1, T] without padding; only in a layout do
tokens see what they may see:

    packed.Packed   prompts and their completions end to end: a completion attends to [its prompt | itself]
    packed.Suffix   completions alone, of a group whose prompt was computed before
    decode.Decode   one new token of each of R rows: keys and values of the prompt stand once per group

All are exact, whatever the decoder: sliding windows and soft caps hold across the shared prompt, because positions
of a completion restart at the length of its prompt.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "groupwise"
"""The name under which transformers knows this attention."""


class Scoring(NamedTuple):
    """How a layer scores: what its model says of scale, sliding window and soft cap."""

    scale: float | None
    """Factor of query times key; None: one over the root of the head's size."""
    window: int | None
    """How many of the latest positions a query sees, its own included; None: all."""
    softcap: float | None
    """Scores become softcap * tanh(scores / softcap)."""

    def capped(self, scores: Tensor) -> Tensor:
        """Scores with the soft cap, if there is one."""
        return self.softcap * torch.tanh(scores / self.softcap) if self.softcap else scores

    def scaled(self, query: Tensor) -> Tensor:
        """The query times the scale."""
        return query * (query.shape[-1] ** -0.5 if self.scale is None else self.scale)


class Layout(Protocol):
    """What queries may see. Called once per layer."""

    def __call__(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scoring: Scoring,
    ) -> Tensor:
        """query [1, H, T, D], key and value [1, KV, T, D] -> [1, H, T, D]."""


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    layout: Layout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every attention layer. Dropout is never applied: log-probs would be noisy."""
    assert layout is not None, "a model prepared by groupwise runs only through groupwise.models.forward"
    scoring = Scoring(scaling, sliding_window, softcap)
    mixed = layout(module.layer_idx, query, key, value, scoring)  # type: ignore[arg-type]
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)  # the layout holds all structure


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scoring: Scoring) -> Tensor:
    """query [B, H, Tq, D], key and value [B, KV, Tk, D], mask [Tq, Tk] True where visible, or None for causal."""
    repeats = query.shape[1] // key.shape[1]
    if not scoring.softcap:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scoring.scale, enable_gqa=repeats > 1
        )
    if mask is None:
        mask = visible(query.shape[2], key.shape[2], 0, None, query.device)
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = scoring.capped(scoring.scaled(query) @ key.transpose(-1, -2))
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value


def visible(queries: int, keys: int, offset: int, window: int | None, device: torch.device) -> Tensor:
    """[queries, keys] bool: causal (and windowed) visibility of keys 0, 1, ... to queries offset, offset + 1, ..."""
    query = torch.arange(offset, offset + queries, device=device)[:, None]
    key = torch.arange(keys, device=device)[None]
    return (key <= query) & (key > query - window) if window else key <= query
