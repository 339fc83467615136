"""The clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347), with two half-widths.

    J_t = min( rho_t A_t,  clip(rho_t, 1 - low, 1 + high) A_t )

A positive advantage is clipped only above 1 + high, a negative one only below 1 - low; the other two
corners keep their gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from groupwise.core.ratios import Ratio


class Surrogate(NamedTuple):
    """A policy loss per token, and what became of its gradient."""

    loss: Tensor  # [T], with gradient
    coefficient: Tensor  # [T] detached: -d loss / d log_prob
    clipped_low: Tensor  # [T] bool
    clipped_high: Tensor  # [T] bool


def clipped_surrogate(ratio: Ratio, advantages: Tensor, clip_low: float, clip_high: float) -> Surrogate:
    """-min(rho A, clip(rho) A) per token; with `clip_low` above 1 there is no lower bound."""
    low, high = 1 - clip_low, 1 + clip_high
    objective = torch.minimum(ratio.value * advantages, ratio.value.clamp(low, high) * advantages)
    value = ratio.value.detach()
    clipped_low = (advantages < 0) & (value < low)
    clipped_high = (advantages > 0) & (value > high)
    coefficient = torch.where(clipped_low | clipped_high, 0.0, ratio.slope * advantages)
    return Surrogate(-objective, coefficient, clipped_low, clipped_high)
