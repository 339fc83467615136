"""Metrics as sums and counts over the tokens that count, so that parts add up over micro-batches, ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.core.corrections import Corrected
from groupwise.core.kl import Estimate, k1, k3
from groupwise.core.masks import PolicyInputs
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


def policy_metrics(inputs: PolicyInputs, surrogate: Surrogate) -> dict[str, Metric]:
    """Of a policy loss: fractions of tokens clipped, clamped and dropped, and the largest ratio.

    The `total` of a fraction is the number of such tokens.
    """
    flags = {"clip_fraction_low": surrogate.clipped_low, "clip_fraction_high": surrogate.clipped_high}
    metrics: dict[str, Metric] = {}
    if surrogate.ratio is not None:
        flags["ratio_clamp_fraction"] = surrogate.ratio.clamped
        metrics["ratio_max"] = token_maximum(inputs.batch, surrogate.ratio.value)
    if surrogate.gate is not None:
        flags["gate_weight"] = surrogate.gate
    means = token_means(inputs.batch, **flags)
    tokens = means["clip_fraction_low"].count + inputs.dropped
    return {**means, **metrics, "nonfinite_fraction": Mean(inputs.dropped, tokens)}


SAMPLER_GAP_BOUND = 1.0
"""A token whose log-prob differs by more than this between trainer and sampler is an outlier: e times as likely."""


def correction_metrics(inputs: PolicyInputs, corrected: Corrected) -> dict[str, Metric]:
    """How far the sampler's log-probs are from the trainer's, and what the correction made of it."""
    assert inputs.sampler_log_probs is not None
    gap = inputs.old_log_probs - inputs.sampler_log_probs
    return {
        **token_means(
            inputs.batch,
            sampler_gap_mean=gap.abs(),
            sampler_gap_fraction=gap.abs() > SAMPLER_GAP_BOUND,
            sampler_kl=-gap,
            correction_weight=corrected.weight,
            correction_bounded_fraction=corrected.bounded,
        ),
        "sampler_gap_max": token_maximum(inputs.batch, gap.abs()),
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


def pair_metrics(margins: Tensor, lengths: Tensor, chosen: Tensor) -> dict[str, Metric]:
    """Of pairs: how many are ordered as they should be (a tie is half a pair), mean margin and both sides' lengths."""
    sides = {"chosen_length": lengths[chosen], "rejected_length": lengths[~chosen]}
    in_order = (margins > 0).double() + (margins == 0).double() / 2
    values = {"pair_accuracy": in_order, "margin": margins, **sides}
    return {name: Mean(float(value.sum()), len(value)) for name, value in values.items()}


def step_metrics(logits: Tensor, labels: Tensor) -> dict[str, Metric]:
    """Of labelled steps, logits and labels [S]: how many are judged as they are labelled, of all, of the right ones and
    of the wrong ones, and the share labelled right. A logit of 0 is half a judgement."""
    right = labels > 0.5
    said_right = (logits > 0).double() + (logits == 0).double() / 2
    agreed = torch.where(right, said_right, 1 - said_right)
    values = {
        "step_accuracy": agreed,
        "right_step_accuracy": agreed[right],
        "wrong_step_accuracy": agreed[~right],
        "step_label_mean": labels,
    }
    return {name: Mean(float(value.sum()), len(value)) for name, value in values.items()}
