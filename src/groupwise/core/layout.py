"""Between the axes of a batch: tokens [T], completions [N], groups [K]. A batch has no padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import torch
from torch import Tensor

from groupwise.types import Batch

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over the ranks of a run."""


def identity(tensor: Tensor) -> Tensor:
    """The `Reduce` of one process."""
    return tensor


_PRECISION: ContextVar[torch.dtype] = ContextVar("_PRECISION", default=torch.float32)


@contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """Inside, advantages and weights have at least this type."""
    token = _PRECISION.set(dtype)
    try:
        yield
    finally:
        _PRECISION.reset(token)


def working_dtype() -> torch.dtype:
    """The type of advantages and weights: torch's default, float32 unless somebody asked for more."""
    return torch.promote_types(torch.promote_types(torch.get_default_dtype(), torch.float32), _PRECISION.get())


def per_token(values: Tensor, batch: Batch) -> Tensor:
    """[N] -> [T]: each token gets its completion's value; prompt tokens get 0 (or False)."""
    return torch.cat([values, values.new_zeros(1)])[batch.completion_index]


def per_completion(values: Tensor, batch: Batch) -> Tensor:
    """[T] -> [N]: sums over the tokens of each completion, 0 for an empty one. Masking is the caller's."""
    return sum_by(values, batch.completion_index, len(batch.completion_spans))


def sum_by(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sums of `values` by their `index`, [size]; what has index -1 is left out."""
    slots = torch.where(index < 0, size, index)
    return values.new_zeros(size + 1).index_add(0, slots, values)[:size]


def completions_where(batch: Batch, condition: Tensor) -> Tensor:
    """[N] bool: completions in which `condition` [T] holds at some token that counts."""
    return per_completion((batch.loss_mask & condition).long(), batch) > 0


def mask_completions(batch: Batch, counted: Tensor) -> Batch:
    """Clear the loss mask where `counted` [N] is False; completions keep their place in N."""
    return replace(batch, loss_mask=batch.loss_mask & per_token(counted, batch))


def per_completion_mean(values: Tensor, batch: Batch) -> Tensor:
    """[T] -> [N]: means over the tokens of each completion that count, 0 where none does; differentiable."""
    total = per_completion(torch.where(batch.loss_mask, values, 0.0), batch)
    return total / per_completion(batch.loss_mask.to(values.dtype), batch).clamp(min=1)


def truncated_completions(batch: Batch) -> Tensor:
    """[N] bool: completions that ran into the token limit."""
    flags = [reason == "length" for reason in batch.finish_reasons]
    return torch.tensor(flags, dtype=torch.bool, device=batch.rewards.device)


def correct_completions(batch: Batch) -> Tensor:
    """[N] bool: completions whose verdict is "right"; those without a verdict are not."""
    return torch.tensor([verdict is True for verdict in batch.correct], dtype=torch.bool, device=batch.rewards.device)
