"""Importance ratios of whole completions, all in log space, over the tokens that count.

    s_i       = exp( mean_t log rho_t )                          GSPO (arXiv:2507.18071, Eq. 7)
    s_i,t     = sg[s_i] pi_theta / sg[pi_theta]                  GSPO-token (Eq. 14)
    product_i = exp( sum_t log rho_t )                           the ratio of the completion as one action
    geo_i     = exp( mean_t clipped log rho_t )                  GMPO (arXiv:2507.20673)

Each is given per token, so that a sum with weights 1 / (N |o_i|) gives the completion its objective once; its slope is
the one that makes d loss / d log_prob = -weight * coefficient, although every token's log-prob moves them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.core.layout import per_completion, per_completion_mean, per_token
from groupwise.core.ratios import CLAMP, Ratio
from groupwise.core.surrogates import Surrogate
from groupwise.types import Batch

SEQUENCE_CLAMP_HIGH = 10.0
"""Largest log of a mean ratio that enters an exponential, as GSPO's own implementations have it."""


def sequence_ratio(log_probs: Tensor, old_log_probs: Tensor, batch: Batch, clamp: float | None = CLAMP) -> Ratio:
    """s_i at each token, [T]: the geometric mean of the completion's token ratios."""
    mean = per_completion_mean(log_probs - old_log_probs, batch)
    return _exponential(mean, batch, clamp, SEQUENCE_CLAMP_HIGH)


def token_varied_ratio(log_probs: Tensor, old_log_probs: Tensor, batch: Batch, clamp: float | None = CLAMP) -> Ratio:
    """s_i,t, [T]: the value of s_i with the gradient of the token alone, so advantages may differ by token."""
    whole = sequence_ratio(log_probs.detach(), old_log_probs, batch, clamp)
    value = whole.value * (log_probs - log_probs.detach()).exp()
    return Ratio(torch.where(whole.clamped, value.detach(), value), whole.slope, whole.clamped)


def product_ratio(log_probs: Tensor, old_log_probs: Tensor, batch: Batch, clamp: float | None = CLAMP) -> Ratio:
    """The product of the completion's token ratios at each token, [T]; it grows exponentially with length."""
    total = per_completion(torch.where(batch.loss_mask, log_probs - old_log_probs, 0.0), batch)
    return _exponential(total, batch, clamp, clamp)


def clipped_geometric_mean(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, batch: Batch, low: float, high: float
) -> Surrogate:
    """-geo_i A_i per token, [T], from log-ratios that are clipped one-sidedly to at least -low or at most high.

    A good completion's log-ratios are bounded above, a bad one's below. A clipped token still moves geo_i by the
    bound, but has no gradient.
    """
    log_ratio = log_probs - old_log_probs
    clipped_high = (advantages > 0) & (log_ratio.detach() > high)
    clipped_low = (advantages < 0) & (log_ratio.detach() < -low)
    bounded = torch.where(clipped_high, high, torch.where(clipped_low, -low, log_ratio))
    ratio = _exponential(per_completion_mean(bounded, batch), batch, CLAMP, CLAMP)
    coefficient = torch.where(clipped_low | clipped_high, 0.0, ratio.slope * advantages)
    return Surrogate(-ratio.value * advantages, coefficient, clipped_low, clipped_high, ratio, whole=True)


def completion_advantages(advantages: Tensor, batch: Batch, name: str) -> Tensor:
    """`advantages` [T], refused where they differ within a completion; `name` is the algorithm's."""
    mean = per_token(per_completion_mean(advantages, batch), batch)
    apart = (advantages - mean).abs() > 1e-5 * mean.abs().clamp(min=1)
    if (apart & batch.loss_mask).any():
        raise ValueError(f"{name} needs one advantage per completion; use gspo_token for advantages per token")
    return advantages


def _exponential(log_ratio: Tensor, batch: Batch, low: float | None, high: float | None) -> Ratio:
    """exp of [N] bounded to [-low, high], at each token; constant beyond the bounds; no bounds where `low` is None."""
    clamped = torch.zeros_like(log_ratio, dtype=torch.bool)
    if low is not None and high is not None:
        clamped = (log_ratio.detach() < -low) | (log_ratio.detach() > min(low, high))
        log_ratio = log_ratio.clamp(-low, min(low, high))
    value = per_token(log_ratio.exp(), batch)
    clamped = per_token(clamped, batch)
    return Ratio(value, torch.where(clamped, 0.0, value.detach()), clamped)
