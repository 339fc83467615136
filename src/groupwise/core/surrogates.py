"""Policy objectives per token, each with its coefficient, the derivative in the log-prob.

    clipped      min( rho A,  clip(rho, 1 - low, 1 + high) A )      PPO (Schulman et al. 2017, arXiv:1707.06347)
    dual clip    max( that, c A ) where A < 0                       Ye et al. 2020 (arXiv:1912.09729)
    soft gate    4/tau sigmoid(tau (rho - 1)) A                     SAPO (arXiv:2511.20347)
    likelihood   sg[w] A log pi                                     REINFORCE (w = 1), CISPO (w = clip(rho))

A positive advantage is clipped only above 1 + high, a negative one only below 1 - low; the other two corners keep
their gradient.
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
    ratio: Ratio | None = None
    whole: bool = False  # every token's loss is that of the whole completion, and so is its gradient
    gate: Tensor | None = None  # [T] detached: the weight of a soft gate


def clipped_surrogate(
    ratio: Ratio, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float = 0.0
) -> Surrogate:
    """-min(rho A, clip(rho) A) per token; with `clip_low` above 1 there is no lower bound.

    `dual_clip` bounds the loss of a negative advantage: beyond a ratio of `dual_clip` it is constant; 0: no such bound.
    """
    low, high = 1 - clip_low, 1 + clip_high
    objective = torch.minimum(ratio.value * advantages, ratio.value.clamp(low, high) * advantages)
    value = ratio.value.detach()
    clipped_low = (advantages < 0) & (value < low)
    clipped_high = (advantages > 0) & (value > high)
    if dual_clip > 0:
        bounded = (advantages < 0) & (value > dual_clip)
        objective = torch.where(bounded, dual_clip * advantages, objective)
        clipped_high = clipped_high | bounded
    coefficient = torch.where(clipped_low | clipped_high, 0.0, ratio.slope * advantages)
    return Surrogate(-objective, coefficient, clipped_low, clipped_high, ratio)


def soft_gate(ratio: Ratio, advantages: Tensor, tau_pos: float, tau_neg: float) -> Surrogate:
    """-4/tau sigmoid(tau (rho - 1)) A per token, tau by the sign of A; its `gate` is the weight 4 p (1 - p).

    The gate is 1 at rho = 1 and falls smoothly on both sides, for both signs. The value at rho = 1 is 2 A / tau, so
    losses don't compare with those of clipped objectives.
    """
    tau = torch.full_like(ratio.value.detach(), tau_neg).masked_fill(advantages > 0, tau_pos)
    gate = torch.sigmoid(tau * (ratio.value - 1))
    weight = (4 * gate * (1 - gate)).detach()
    never = torch.zeros_like(advantages, dtype=torch.bool)
    coefficient = weight * ratio.slope * advantages
    return Surrogate(-4 / tau * gate * advantages, coefficient, never, never, ratio, gate=weight)


def likelihood(
    log_probs: Tensor, advantages: Tensor, weight: Tensor | None = None, ratio: Ratio | None = None
) -> Surrogate:
    """-sg[weight] A log pi per token: never clipped, whatever the weight is. `ratio` is for the metrics."""
    coefficient = (advantages if weight is None else weight * advantages).detach()
    never = torch.zeros_like(advantages, dtype=torch.bool)
    return Surrogate(-coefficient * log_probs, coefficient, never, never, ratio)


def truncated_weight(ratio: Ratio, cap: float | None, floor: float | None) -> Tensor:
    """[T] detached: the ratio, at most `cap` and at least `floor` (CISPO, arXiv:2506.13585, Eq. 5)."""
    return ratio.value.detach().clamp(min=floor, max=cap) if (cap, floor) != (None, None) else ratio.value.detach()
