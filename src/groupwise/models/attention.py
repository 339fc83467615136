"""One attention function for sampling and training: the structure of groups, carried by a layout object.

transformers lets a program register an attention function by name, and hands extra keyword arguments of a model's
forward to it. Every other layer of the model sees one packed token axis [1, T] without padding; only here do tokens
see what they may see:

    Packed   prompts and their completions end to end: a completion attends to [its prompt | itself]
    Decode   one new token of each of R rows: the prompt's keys and values stand once per group, each row has its own

Both are exact, whatever the decoder: sliding windows and soft caps hold across the shared prompt, because positions
of a completion restart at the length of its prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from groupwise.types import Batch, Span

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


class Packed:
    """Prompts and completions of several groups end to end on one axis; see `groupwise.packing`.

    Groups whose prompts have the same length are computed together. Completions are padded at their end for the
    attention call alone, where the causal mask hides what pads them. With `keep=True` the keys and values of the
    prompts are kept per layer for a `Decode` to start from.
    """

    def __init__(
        self,
        prompt_spans: Sequence[Span],
        completion_spans: Sequence[Sequence[Span]],
        device: torch.device,
        *,
        keep: bool = False,
    ) -> None:
        self.prompt_spans = list(prompt_spans)
        self.kept: dict[int, list[tuple[Tensor, Tensor]]] | None = {} if keep else None
        buckets: dict[int, list[int]] = {}
        for number, (start, end) in enumerate(prompt_spans):
            buckets.setdefault(end - start, []).append(number)
        self.buckets = [
            _Bucket(
                [prompt_spans[number] for number in numbers], [completion_spans[number] for number in numbers], device
            )
            for numbers in buckets.values()
        ]
        order = torch.cat([bucket.order for bucket in self.buckets])
        self.back = torch.empty_like(order)
        self.back[order] = torch.arange(len(order), device=device)

    @classmethod
    def of(cls, batch: Batch) -> Packed:
        """The layout of a batch."""
        spans: list[list[Span]] = [[] for _ in batch.prompt_spans]
        for number, span in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
            spans[number].append(span)
        return cls(batch.prompt_spans, spans, batch.token_ids.device)

    def __call__(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scoring: Scoring,
    ) -> Tensor:
        if self.kept is not None:
            self.kept[layer] = [(key[0, :, start:end], value[0, :, start:end]) for start, end in self.prompt_spans]
        parts = [part for bucket in self.buckets for part in bucket.attend(query, key, value, scoring)]
        return torch.cat(parts).index_select(0, self.back).transpose(0, 1)[None]


class _Bucket:
    """Groups whose prompts have the same length, and where their tokens stand on the packed axis."""

    def __init__(self, prompts: Sequence[Span], completions: Sequence[Sequence[Span]], device: torch.device) -> None:
        self.length = prompts[0][1] - prompts[0][0]
        self.groups = len(prompts)
        spans = [
            (group, start, end)
            for group, group_spans in enumerate(completions)
            for start, end in group_spans
            if end > start
        ]
        self.rows = len(spans)
        self.longest = max((end - start for _, start, end in spans), default=0)
        starts = torch.tensor([start for start, _ in prompts], device=device)
        self.prompt = (starts[:, None] + torch.arange(self.length, device=device)).reshape(-1)
        first, last, self.group_of_row = (
            torch.tensor(numbers, dtype=torch.int64, device=device)
            for numbers in ([s for _, s, _ in spans], [e - 1 for _, _, e in spans], [g for g, _, _ in spans])
        )
        places = first[:, None] + torch.arange(self.longest, device=device)
        self.real = (places <= last[:, None]).reshape(-1).nonzero()[:, 0]
        self.own = torch.minimum(places, last[:, None]).reshape(-1)
        self.order = torch.cat([self.prompt, self.own[self.real]])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> list[Tensor]:
        """[1, heads, T, D] each -> what the bucket's tokens get, [n, H, D], in the order of `order`."""
        prompt_query, prompt_key, prompt_value = (_rows(x, self.prompt, self.groups) for x in (query, key, value))
        window = scoring.window
        narrow = window is not None and self.length > window
        mask = visible(self.length, self.length, 0, window, query.device) if narrow else None
        mixed = [_flat(attend(prompt_query, prompt_key, prompt_value, mask, scoring))]
        if self.rows:
            own_query, own_key, own_value = (_rows(x, self.own, self.rows) for x in (query, key, value))
            keys = torch.cat([prompt_key.index_select(0, self.group_of_row), own_key], 2)
            values = torch.cat([prompt_value.index_select(0, self.group_of_row), own_value], 2)
            mask = visible(self.longest, keys.shape[2], self.length, window, query.device)
            own = _flat(attend(own_query, keys, values, mask, scoring))
            mixed.append(own.index_select(0, self.real))
        return mixed


def _rows(x: Tensor, index: Tensor, rows: int) -> Tensor:
    """[1, heads, T, D] at rows * n places of the axis -> [rows, heads, n, D]."""
    return x[0].index_select(1, index).unflatten(1, (rows, -1)).transpose(0, 1)


def _flat(x: Tensor) -> Tensor:
    """[rows, heads, n, D] -> [rows * n, heads, D]."""
    return x.transpose(1, 2).flatten(0, 1)


@dataclass
class Rows:
    """The keys and values of one layer while decoding R rows that belong to g groups."""

    prompt_key: Tensor  # [g, KV, longest prompt, D], padded at the end
    prompt_value: Tensor
    key: Tensor  # [R, KV, capacity, D]
    value: Tensor


class Decode:
    """One new token for each of R rows; rows of a group share the prompt's keys and values.

    The scores of all siblings against their prompt are one matrix product per group, so the prompt's keys are read
    once per group however many siblings there are.
    """

    def __init__(self, layers: dict[int, Rows], group_of_row: list[int], prompt_lengths: list[int]) -> None:
        """layers: keys and values by layer; group_of_row: R group indices, siblings adjacent; prompt_lengths: g."""
        device = next(iter(layers.values())).key.device
        self.layers = layers
        self.device = device
        self.groups = len(prompt_lengths)
        seen = [0] * self.groups
        slots = []
        for group in group_of_row:
            slots.append((group, seen[group]))
            seen[group] += 1
        self.siblings = max(seen)
        self.slots = torch.tensor([group * self.siblings + place for group, place in slots], device=device)
        self.row_prompt = torch.tensor([prompt_lengths[group] for group in group_of_row], device=device)
        self.prompt_positions = torch.arange(max(prompt_lengths), device=device)
        self.every_row = torch.arange(len(group_of_row), device=device)

    def step(self, lengths: Tensor) -> None:
        """Prepare for one forward: lengths [R], the number of tokens each row already holds."""
        self.lengths = lengths
        self.held = int(lengths.max()) + 1
        self.masks: dict[int | None, Tensor] = {}

    def mask(self, window: int | None) -> Tensor:
        """[R, 1, 1, longest prompt + held]: what each row's new token may see."""
        if window not in self.masks:
            position = (self.row_prompt + self.lengths)[:, None]
            own = torch.arange(self.held, device=self.device)[None]
            prompt = self.prompt_positions[None] < self.row_prompt[:, None]
            recent = own <= self.lengths[:, None]
            if window:
                prompt &= self.prompt_positions[None] > position - window
                recent &= own + self.row_prompt[:, None] > position - window
            self.masks[window] = torch.cat([prompt, recent], 1)[:, None, None]
        return self.masks[window]

    def __call__(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scoring: Scoring,
    ) -> Tensor:
        state = self.layers[layer]
        _, heads, rows, size = query.shape
        kv = key.shape[1]
        state.key[self.every_row, :, self.lengths] = key[0].transpose(0, 1)
        state.value[self.every_row, :, self.lengths] = value[0].transpose(0, 1)
        own_key, own_value = state.key[:, :, : self.held], state.value[:, :, : self.held]
        queries = query[0].transpose(0, 1).reshape(rows, kv, heads // kv, size)
        queries = scoring.scaled(queries)
        prompt_scores = self._from_slots(self._to_slots(queries) @ state.prompt_key.transpose(-1, -2), heads // kv)
        scores = torch.cat([prompt_scores, queries @ own_key.transpose(-1, -2)], -1)
        weights = (
            scoring.capped(scores).masked_fill(~self.mask(scoring.window), float("-inf")).softmax(-1).to(value.dtype)
        )
        longest = self.prompt_positions.numel()
        mixed = weights[..., longest:] @ own_value
        mixed = mixed + self._from_slots(self._to_slots(weights[..., :longest]) @ state.prompt_value, heads // kv)
        return mixed.reshape(rows, heads, -1).transpose(0, 1)[None]

    def _to_slots(self, x: Tensor) -> Tensor:
        """[R, KV, repeats, n] -> [g, KV, siblings * repeats, n]; slots without a row are zero."""
        _, kv, repeats, n = x.shape
        slots = x.new_zeros(self.groups * self.siblings, kv, repeats, n)
        slots[self.slots] = x
        return slots.view(self.groups, self.siblings, kv, repeats, n).transpose(1, 2).reshape(self.groups, kv, -1, n)

    def _from_slots(self, x: Tensor, repeats: int) -> Tensor:
        """[g, KV, siblings * repeats, n] -> [R, KV, repeats, n]."""
        groups, kv, _, n = x.shape
        return x.view(groups, kv, self.siblings, repeats, n).transpose(1, 2).reshape(-1, kv, repeats, n)[self.slots]
