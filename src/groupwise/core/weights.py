"""Aggregation: how losses per token become one number.

Every loss is sum_t W_t loss_t. W is fixed for a whole optimiser step, over all its micro-batches and all
ranks, before the first backward pass, and nothing divides later; so the gradient can't depend on how the
step is cut.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from groupwise.core.layout import Reduce, identity, per_completion, per_token, sum_by, working_dtype
from groupwise.errors import RunFileError
from groupwise.types import Batch

Aggregation = Literal[
    "seq-mean-token-mean", "token-mean", "group-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]
Denominator = Literal["all", "nonempty"]

FORMULAS: dict[Aggregation, str] = {
    "seq-mean-token-mean": "1 / (|o_i| N)",
    "token-mean": "1 / sum_j |o_j|",
    "group-token-mean": "1 / (K sum_{j in group} |o_j|)",
    "seq-mean-token-sum": "1 / N",
    "seq-mean-token-sum-norm": "1 / (L N)",
}
"""The weight of a token of completion o_i, |o_i| being its tokens that count, N completions, K groups."""


def token_weights(
    batch: Batch,
    aggregation: Aggregation,
    reduce: Reduce = identity,
    *,
    denominator: Denominator = "all",
    length_constant: int | None = None,
) -> Tensor:
    """[T] weights by `FORMULAS`, 0 where masked; `batch` is this rank's part of an optimiser step.

    A completion is present through its loss mask alone. N and K count every completion and group of the
    step, those without a token that counts included (empty, filtered, not scored), or with
    `denominator="nonempty"` the others alone. Groups must not be split over ranks for `group-token-mean`.
    `length_constant` is L, a constant of the run.
    """
    lengths = per_completion(batch.loss_mask.double(), batch)
    group_lengths = sum_by(lengths, batch.group_index, len(batch.group_ids))
    total, completions, groups = _counts(lengths, group_lengths, denominator, reduce)
    match aggregation:
        case "seq-mean-token-mean":
            divisor = lengths.clamp(min=1) * completions
        case "token-mean":
            divisor = total.expand_as(lengths)
        case "group-token-mean":
            divisor = group_lengths.clamp(min=1)[batch.group_index] * groups
        case "seq-mean-token-sum":
            divisor = completions.expand_as(lengths)
        case "seq-mean-token-sum-norm":
            divisor = (completions * _checked(length_constant)).expand_as(lengths)
    return torch.where(batch.loss_mask, per_token(1 / divisor, batch), 0.0).to(working_dtype())


def _counts(lengths: Tensor, group_lengths: Tensor, denominator: Denominator, reduce: Reduce) -> Tensor:
    """Tokens, completions and groups of the whole step over all ranks, [3] float64, each at least 1."""
    completions = lengths > 0 if denominator == "nonempty" else torch.ones_like(lengths)
    groups = group_lengths > 0 if denominator == "nonempty" else torch.ones_like(group_lengths)
    return reduce(torch.stack([lengths.sum(), completions.double().sum(), groups.double().sum()])).clamp(min=1)


def _checked(length_constant: int | None) -> int:
    if length_constant is None or length_constant < 1:
        raise RunFileError(
            f"aggregation 'seq-mean-token-sum-norm' has length_constant {length_constant}",
            fix="set length_constant to the largest number of tokens of a completion",
        )
    return length_constant


def weighted_sum(losses: Tensor, batch: Batch) -> Tensor:
    """sum_t W_t losses_t over the tokens that count: exactly 0, and still in the graph, where none does."""
    assert batch.token_weights is not None, "weights are assigned before the loss"
    return torch.where(batch.loss_mask, batch.token_weights * losses, 0.0).sum()
