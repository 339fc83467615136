"""The layouts of training: whole groups on one token axis, and completions alone behind a prompt computed before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from groupwise.models.attention import Scoring, attend, visible
from groupwise.types import Batch, Span

LANE, SHORT = 0.75, 16
"""Completions of one attention call are at least this share of the longest of them, or this many tokens less: below
that a call of its own costs more than the padding."""


class Packed:
    """Prompts and completions of several groups end to end on one axis; see `groupwise.packing`.

    Groups whose prompts have the same length are computed together. Completions are padded at their end for the
    attention calls alone, where the causal mask hides what pads them. With `keep=True` the keys and values of the
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
        self.back = _inverted(torch.cat([bucket.order for bucket in self.buckets]))

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


class Suffix:
    """The completions of one group end to end, behind a prompt whose keys and values are given per layer."""

    def __init__(
        self,
        prompt_length: int,
        completion_spans: Sequence[Span],
        prompt: Mapping[int, tuple[Tensor, Tensor]],
        device: torch.device,
    ) -> None:
        """prompt: key and value [KV, P, D] of each layer, in at least the model's precision."""
        self.prompt = prompt
        self.completions = _Completions([(0, start, end) for start, end in completion_spans], prompt_length, device)
        self.back = _inverted(self.completions.order)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> Tensor:
        prompt_key, prompt_value = (x[None].to(key.dtype) for x in self.prompt[layer])
        mixed = torch.cat(self.completions.attend(query, key, value, prompt_key, prompt_value, scoring))
        return mixed.index_select(0, self.back).transpose(0, 1)[None]


class _Bucket:
    """Groups whose prompts have the same length, and where their tokens stand on the packed axis."""

    def __init__(self, prompts: Sequence[Span], completions: Sequence[Sequence[Span]], device: torch.device) -> None:
        self.length = prompts[0][1] - prompts[0][0]
        self.groups = len(prompts)
        starts = torch.tensor([start for start, _ in prompts], device=device)
        self.prompt = (starts[:, None] + torch.arange(self.length, device=device)).reshape(-1)
        spans = [(group, start, end) for group, own in enumerate(completions) for start, end in own]
        self.completions = _Completions(spans, self.length, device)
        self.order: Tensor = torch.cat([self.prompt, self.completions.order])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> list[Tensor]:
        """[1, heads, T, D] each -> what the bucket's tokens get, [n, H, D], in the order of `order`."""
        prompt_query, prompt_key, prompt_value = (_rows(x, self.prompt, self.groups) for x in (query, key, value))
        narrow = scoring.window is not None and self.length > scoring.window
        mask = visible(self.length, self.length, 0, scoring.window, query.device) if narrow else None
        mixed = _flat(attend(prompt_query, prompt_key, prompt_value, mask, scoring))
        return [mixed, *self.completions.attend(query, key, value, prompt_key, prompt_value, scoring)]


class _Completions:
    """Completions behind prompts of one length, in lanes of about the same length.

    A lane is one attention call, padded to its longest: padding costs as much as tokens, and it grows with the square
    of the length.
    """

    def __init__(self, spans: Sequence[tuple[int, int, int]], prompt_length: int, device: torch.device) -> None:
        """spans: group, start and end of each; empty ones have no row."""
        longest_first = sorted((span for span in spans if span[2] > span[1]), key=lambda span: span[1] - span[2])
        lanes: list[list[tuple[int, int, int]]] = []
        for group, start, end in longest_first:
            if not lanes or end - start + SHORT < LANE * (lanes[-1][0][2] - lanes[-1][0][1]):
                lanes.append([])
            lanes[-1].append((group, start, end))
        self.lanes = [_Lane(lane, prompt_length, device) for lane in lanes]
        none = torch.empty(0, dtype=torch.int64, device=device)
        self.order: Tensor = torch.cat([none, *(lane.order for lane in self.lanes)])

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, prompt_key: Tensor, prompt_value: Tensor, scoring: Scoring
    ) -> list[Tensor]:
        """[1, heads, T, D] each, and [groups, KV, P, D] -> what the lanes' tokens get, [n, H, D] each."""
        return [lane.attend(query, key, value, prompt_key, prompt_value, scoring) for lane in self.lanes]


class _Lane:
    """Completions that are padded together, and where their tokens stand on the axis."""

    def __init__(self, spans: Sequence[tuple[int, int, int]], prompt_length: int, device: torch.device) -> None:
        """spans: group, start and end of each, the longest first."""
        self.prompt_length, self.rows = prompt_length, len(spans)
        self.longest = spans[0][2] - spans[0][1]
        first, last, self.group_of_row = (
            torch.tensor(numbers, dtype=torch.int64, device=device)
            for numbers in ([s for _, s, _ in spans], [e - 1 for _, _, e in spans], [g for g, _, _ in spans])
        )
        places = first[:, None] + torch.arange(self.longest, device=device)
        self.real = (places <= last[:, None]).reshape(-1).nonzero()[:, 0]
        self.own = torch.minimum(places, last[:, None]).reshape(-1)
        self.order = self.own[self.real]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, prompt_key: Tensor, prompt_value: Tensor, scoring: Scoring
    ) -> Tensor:
        """[1, heads, T, D] each, and [groups, KV, P, D] -> what the lane's tokens get, [n, H, D]."""
        own_query, own_key, own_value = (_rows(x, self.own, self.rows) for x in (query, key, value))
        keys = torch.cat([prompt_key.index_select(0, self.group_of_row), own_key], 2)
        values = torch.cat([prompt_value.index_select(0, self.group_of_row), own_value], 2)
        mask = visible(self.longest, keys.shape[2], self.prompt_length, scoring.window, query.device)
        return _flat(attend(own_query, keys, values, mask, scoring)).index_select(0, self.real)


def _inverted(order: Tensor) -> Tensor:
    """The permutation that undoes one."""
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    return back


def _rows(x: Tensor, index: Tensor, rows: int) -> Tensor:
    """[1, heads, T, D] at rows * n places of the axis -> [rows, heads, n, D]."""
    return x[0].index_select(1, index).unflatten(1, (rows, -1)).transpose(0, 1)


def _flat(x: Tensor) -> Tensor:
    """[rows, heads, n, D] -> [rows * n, heads, D]."""
    return x.transpose(1, 2).flatten(0, 1)
