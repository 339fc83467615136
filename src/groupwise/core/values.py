"""What a critic is trained with and judged by."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from groupwise.core.layout import Reduce, identity


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None = 0.2) -> Tensor:
    """[T], half the squared error, the larger of that of the value and of the value kept within `clip` of the old one.

    L_t = 1/2 max( (V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2 ): a value that has already moved by c towards its
    target gets no further gradient from this rollout. None: the plain squared error.
    """
    error = (values - returns).square()
    if clip is not None:
        bounded = torch.maximum(torch.minimum(values, old_values + clip), old_values - clip)
        error = torch.maximum(error, (bounded - returns).square())
    return error / 2


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor, reduce: Reduce = identity) -> float:
    """1 - Var(R - V) / Var(R) over the entries where `mask` is True, on every rank; NaN where the returns are equal.

    1: the critic knows the return; 0: no better than the mean; below 0: worse.
    """
    target = torch.where(mask, returns.detach().double(), 0.0)
    error = torch.where(mask, target - values.detach().double(), 0.0)
    count, *means = reduce(torch.stack([mask.double().sum(), target.sum(), error.sum()]))
    centre_target, centre_error = (mean / count.clamp(min=1) for mean in means)
    spreads = [torch.where(mask, target - centre_target, 0.0), torch.where(mask, error - centre_error, 0.0)]
    total, left = reduce(torch.stack([spread.square().sum() for spread in spreads])).tolist()
    return 1 - left / total if total > 0 else math.nan
