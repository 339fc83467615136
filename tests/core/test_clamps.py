"""Bounds of ratios and estimates: on them, beyond them, and where the two meet."""

from __future__ import annotations

import pytest
import torch

from groupwise.core.kl import importance_weighted, k3
from groupwise.core.ratios import importance_ratio
from groupwise.core.surrogates import clipped_surrogate


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("log_ratio", [0.0, 0.25, -0.25, 0.5, -0.5])
def test_a_ratio_on_the_bound_keeps_its_gradient(sign, log_ratio):
    """The coefficient says what autograd does, also where a clip bound equals the ratio."""
    log_probs = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    ratio = importance_ratio(log_probs, torch.zeros(1))
    bound = ratio.value.item() - 1
    for low, high in ((0.3, 0.3), (max(-bound, 1e-9), max(bound, 1e-9))):
        surrogate = clipped_surrogate(ratio, torch.tensor([sign], dtype=torch.float64), low, high)
        (gradient,) = torch.autograd.grad(surrogate.loss.sum(), log_probs, retain_graph=True)
        torch.testing.assert_close(-surrogate.coefficient, gradient)


@pytest.mark.parametrize("log_ratio", [-25.0, -19.0, 0.0, 19.0, 25.0])
@pytest.mark.parametrize("difference", [-25.0, -19.0, 0.5, 19.0, 25.0])
def test_a_weighted_estimate_has_no_gradient_beyond_either_clamp(log_ratio, difference):
    log_probs = torch.tensor([-60.0], dtype=torch.float64, requires_grad=True)
    ratio = importance_ratio(log_probs, log_probs.detach() - log_ratio)
    estimate = importance_weighted(k3(log_probs, log_probs.detach() - difference), ratio)
    (gradient,) = torch.autograd.grad(estimate.value.sum(), log_probs, allow_unused=True)
    beyond = abs(log_ratio) > 20 or abs(difference) > 20
    assert estimate.clamped.item() == beyond
    if beyond:
        assert gradient.item() == 0 and estimate.slope.item() == 0
    else:
        expected = torch.tensor([log_ratio], dtype=torch.float64).exp() * difference
        torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(estimate.slope, expected, rtol=1e-6, atol=0)


def test_without_a_clamp_nothing_is_bounded():
    ratio = importance_ratio(torch.tensor([0.0]), torch.tensor([-30.0]), None)
    assert ratio.value.item() > 1e12 and not ratio.clamped.any() and ratio.slope.item() == ratio.value.item()
    estimate = k3(torch.tensor([-30.0]), torch.tensor([0.0]), None)
    assert estimate.value.item() > 1e12 and estimate.slope.item() < -1e12
