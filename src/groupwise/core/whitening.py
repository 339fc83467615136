"""Whitening: values less their mean, over their standard deviation, statistics over all ranks.

    A <- (A - mean A) / std A

PPO whitens the advantages of all tokens of a rollout step (Huang et al. 2023); REINFORCE++ (arXiv:2501.03262) makes
its advantages that way. Statistics are float64. Values that are all equal, or fewer than two, have no spread to divide
by: they are reported as degenerate, never blown up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from groupwise.core.advantages import TIE_TOL, StdSpec
from groupwise.core.layout import Reduce, identity

WHITENING_STD = StdSpec(kind="population", eps=1e-8, place="inside")


class Whitened(NamedTuple):
    """Whitened values, and what they were whitened with."""

    values: Tensor  # float64, 0 where masked
    mean: Tensor  # scalar
    divisor: Tensor  # scalar
    degenerate: bool


def whiten(
    values: Tensor,
    mask: Tensor,
    std: StdSpec = WHITENING_STD,
    reduce: Reduce = identity,
    *,
    tie_tol: float = TIE_TOL,
    when_tied: Literal["keep", "zero"] = "keep",
) -> Whitened:
    """(values - mean) / std over the entries where `mask` is True, on every rank's together.

    Tied means that the squared deviations are at most tie_tol^2 of the squares: such values, and fewer than two of
    them, are left as they are, or all 0.
    """
    masked = torch.where(mask, values.detach().double(), 0.0)
    total, squares, count = reduce(torch.stack([masked.sum(), masked.square().sum(), mask.double().sum()]))
    mean = total / count.clamp(min=1)
    deviations = torch.where(mask, masked - mean, 0.0)
    spread = reduce(deviations.square().sum())
    divisor = std.divisor(spread, count)
    degenerate = bool(count < 2) or bool(spread <= tie_tol**2 * squares)
    if degenerate:
        return Whitened(masked if when_tied == "keep" else torch.zeros_like(masked), mean, divisor, True)
    return Whitened(deviations / divisor, mean, divisor, False)
