"""Estimators of KL(pi_theta || pi_ref) per token (Schulman 2020, "Approximating KL Divergence").

With d = log pi_theta - log pi_ref and r = pi_ref / pi_theta = exp(-d), for tokens drawn from pi_theta:

    k1 = d             unbiased, can be negative; as a loss its expected gradient is 0
    k2 = d^2 / 2       biased;   as a loss it has the gradient of KL(pi_theta || pi_ref)
    k3 = r - 1 + d     unbiased, never negative; as a loss it has the gradient of KL(pi_ref || pi_theta)

The value of an estimator and its gradient as a loss are two questions (Tang & Munos 2025,
arXiv:2506.09477). k3 times the importance ratio has the gradient of KL(pi_theta || pi_ref), on policy and
off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from groupwise.core.ratios import CLAMP, Ratio


class Estimate(NamedTuple):
    """A divergence estimate and what its gradient needs."""

    value: Tensor  # [T], with gradient
    slope: Tensor  # [T] detached: d value / d log_prob
    clamped: Tensor  # [T] bool: the gradient is 0 because a log-ratio was beyond the clamp


def k1(log_probs: Tensor, ref_log_probs: Tensor) -> Estimate:
    """log pi_theta - log pi_ref, [T]."""
    value = log_probs - ref_log_probs
    return Estimate(value, torch.ones_like(value), torch.zeros_like(value, dtype=torch.bool))


def k2(log_probs: Tensor, ref_log_probs: Tensor) -> Estimate:
    """Half the squared log-ratio, [T]."""
    difference = log_probs - ref_log_probs
    return Estimate(difference.square() / 2, difference.detach(), torch.zeros_like(difference, dtype=torch.bool))


def k3(log_probs: Tensor, ref_log_probs: Tensor, clamp: float | None = CLAMP) -> Estimate:
    """pi_ref/pi_theta - log(pi_ref/pi_theta) - 1, [T] (DeepSeekMath, arXiv:2402.03300, Eq. 4).

    Beyond the clamp the value is constant and the gradient 0: there the policy has run away, which the
    count of clamped tokens shows. expm1 keeps the digits that exp(x) - x - 1 loses near 0.
    """
    log_ratio = ref_log_probs - log_probs
    clamped = torch.zeros_like(log_ratio, dtype=torch.bool)
    if clamp is not None:
        clamped = log_ratio.detach().abs() > clamp
        log_ratio = log_ratio.clamp(-clamp, clamp)
    excess = log_ratio.expm1()
    return Estimate(excess - log_ratio, torch.where(clamped, 0.0, -excess.detach()), clamped)


def importance_weighted(estimate: Estimate, ratio: Ratio) -> Estimate:
    """rho * estimate, [T], with the gradient of both factors.

    Where either factor is clamped the product is constant: one factor's gradient alone would mislead.
    """
    clamped = estimate.clamped | ratio.clamped
    value = ratio.value * estimate.value
    slope = ratio.slope * estimate.value.detach() + ratio.value.detach() * estimate.slope
    return Estimate(torch.where(clamped, value.detach(), value), torch.where(clamped, 0.0, slope), clamped)


EstimatorName = Literal["k1", "k2", "k3"]

ESTIMATORS: dict[EstimatorName, Callable[[Tensor, Tensor], Estimate]] = {"k1": k1, "k2": k2, "k3": k3}
"""The estimators by name."""


def adaptive_coefficient(beta: float, observed: float, target: float, horizon: float, completions: int) -> float:
    """The next KL coefficient (Ziegler et al. 2019, arXiv:1909.08593, section 2.2).

    beta (1 + clip(observed / target - 1, -0.2, 0.2) completions / horizon): it grows while the divergence is above the
    target and shrinks while it is below.
    """
    error = min(max(observed / target - 1, -0.2), 0.2)
    return beta * (1 + error * completions / horizon)
