"""Metrics as sums and counts over the tokens that count, so that parts add up over micro-batches, ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.core.kl import Estimate, k1, k3
from groupwise.core.masks import PolicyInputs
from groupwise.core.ratios import Ratio
from groupwise.core.surrogates import Surrogate
from groupwise.types import Batch, Maximum, Mean, Metric


def token_means(batch: Batch, **values: Tensor) -> dict[str, Mean]:
    """For each name its values [T] as a `Mean` over the tokens that count: total and number of tokens."""
    sums = [torch.where(batch.loss_mask, value.detach().double(), 0.0).sum() for value in values.values()]
    *totals, count = torch.stack([*sums, batch.loss_mask.sum().double()]).tolist()  # one wait for the device
    return {name: Mean(total, count) for name, total in zip(values, totals, strict=True)}


def token_maximum(batch: Batch, values: Tensor) -> Maximum:
    """The largest of `values` [T], which are not negative, at tokens that count; 0 where none does."""
    counted = torch.where(batch.loss_mask, values.detach(), 0.0)
    return Maximum(float(counted.max()) if counted.numel() else 0.0)


def policy_metrics(inputs: PolicyInputs, ratio: Ratio, surrogate: Surrogate) -> dict[str, Metric]:
    """Of a clipped surrogate: fractions of tokens clipped, clamped and dropped, and the largest ratio.

    The `total` of a fraction is the number of such tokens.
    """
    means = token_means(
        inputs.batch,
        clip_fraction_low=surrogate.clipped_low,
        clip_fraction_high=surrogate.clipped_high,
        ratio_clamp_fraction=ratio.clamped,
    )
    tokens = means["clip_fraction_low"].count + inputs.dropped
    return {
        **means,
        "ratio_max": token_maximum(inputs.batch, ratio.value),
        "nonfinite_fraction": Mean(inputs.dropped, tokens),
    }


def kl_metrics(inputs: PolicyInputs, estimate: Estimate) -> dict[str, Metric]:
    """k1 and k3 against the reference, and the fraction of tokens at which the estimate was clamped."""
    assert inputs.ref_log_probs is not None
    log_probs = inputs.log_probs.detach()
    return {
        **token_means(
            inputs.batch,
            kl_k1=k1(log_probs, inputs.ref_log_probs).value,
            kl_k3=k3(log_probs, inputs.ref_log_probs).value,
            kl_clamp_fraction=estimate.clamped,
        )
    }
