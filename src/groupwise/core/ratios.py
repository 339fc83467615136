"""The importance ratio rho = pi_theta(o_t | q, o_<t) / pi_old(o_t | q, o_<t), per token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

CLAMP = 20.0
"""Largest |log-ratio| that enters an exponential: e^20 is far beyond use, and far from overflow."""


class Ratio(NamedTuple):
    """An importance ratio and what its gradient needs."""

    value: Tensor  # [T], with gradient
    slope: Tensor  # [T] detached: d value / d log_prob
    clamped: Tensor  # [T] bool: the log-ratio was beyond the clamp


def importance_ratio(log_probs: Tensor, old_log_probs: Tensor, clamp: float | None = CLAMP) -> Ratio:
    """exp(log_probs - old_log_probs), [T]; beyond the clamp it is constant, with a gradient of 0."""
    log_ratio = log_probs - old_log_probs
    clamped = torch.zeros_like(log_ratio, dtype=torch.bool)
    if clamp is not None:
        clamped = log_ratio.detach().abs() > clamp
        log_ratio = log_ratio.clamp(-clamp, clamp)
    value = log_ratio.exp()
    return Ratio(value, torch.where(clamped, 0.0, value.detach()), clamped)
