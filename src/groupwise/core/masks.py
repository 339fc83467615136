"""Keeping what doesn't count out of loss and gradient.

Multiplying by a mask is not enough: NaN * 0 is NaN, also in the backward pass. So masked inputs are
replaced before anything is computed from them, and masked losses once more before they are summed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from groupwise.core.layout import working_dtype
from groupwise.errors import NonFiniteLogprobError
from groupwise.types import Batch

OnNonFinite = Literal["error", "drop"]


class PolicyInputs(NamedTuple):
    """What a policy loss is computed from: zero where masked, finite elsewhere, at least float32."""

    batch: Batch
    """The batch, its loss mask without the tokens that were dropped."""
    log_probs: Tensor  # [T], with gradient
    old_log_probs: Tensor  # [T] detached
    ref_log_probs: Tensor | None  # [T] detached
    advantages: Tensor  # [T] detached
    dropped: int
    """Tokens left out because a log-prob was not finite."""
    sampler_log_probs: Tensor | None = None  # [T] detached


def where_mask(values: Tensor, batch: Batch, name: str = "log_probs") -> Tensor:
    """`values` [T] where the loss mask is True and 0 elsewhere, with a gradient of exactly 0 there.

    Raises `NonFiniteLogprobError` when a value that counts is NaN or infinite.
    """
    check_finite(values, batch, name)
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    return torch.where(batch.loss_mask, values, 0.0)


def check_finite(values: Tensor, batch: Batch, name: str) -> None:
    """Raise `NonFiniteLogprobError` when `values` [T] is NaN or infinite at a token that counts."""
    bad = batch.loss_mask & ~values.isfinite()
    if not bad.any():
        return
    first = int(bad.nonzero()[0])
    where = f"token {first} of completion {int(batch.completion_index[first])}"
    raise NonFiniteLogprobError(
        f"{name} is {values[first].item()} at {where}, one of {int(bad.sum())} that are not finite; "
        "training and sampling disagree, or the policy ran away"
    )


def drop_nonfinite(batch: Batch, *values: Tensor | None) -> tuple[Batch, int]:
    """The batch with the tokens masked at which any of `values` [T] is not finite, and how many those are.

    Weights stay as they are: a dropped token adds 0 to the sum and still counts in the denominator.
    """
    finite = torch.ones_like(batch.loss_mask)
    for tensor in values:
        if tensor is not None:
            finite &= tensor.isfinite()
    mask = batch.loss_mask & finite
    return replace(batch, loss_mask=mask), int(batch.loss_mask.sum() - mask.sum())


def policy_inputs(
    batch: Batch, log_probs: Tensor, on_nonfinite: OnNonFinite = "error", *, sampler: bool = False
) -> PolicyInputs:
    """The masked inputs of a policy loss, from a batch with advantages and the current `log_probs` [T].

    Without old log-probs the old policy is the current one: a ratio of exactly 1 that still has its gradient.
    `sampler` takes the sampler's log-probs along, and drops and counts tokens at which one isn't finite. Raises
    `NonFiniteLogprobError`, or drops and counts, where another input that counts is not finite.
    """
    advantages = batch.advantages
    assert advantages is not None, "advantages are assigned before the loss"
    dropped = 0
    if sampler:
        assert batch.sampler_log_probs is not None, "a correction needs the sampler's log-probs"
        batch, dropped = drop_nonfinite(batch, batch.sampler_log_probs)
    if on_nonfinite == "drop":
        batch, more = drop_nonfinite(batch, log_probs, batch.old_log_probs, batch.ref_log_probs)
        dropped += more
    drawn = (
        where_mask(batch.sampler_log_probs.detach(), batch) if sampler and batch.sampler_log_probs is not None else None
    )
    log_probs = where_mask(log_probs, batch)
    old, ref = batch.old_log_probs, batch.ref_log_probs
    return PolicyInputs(
        batch=batch,
        log_probs=log_probs,
        old_log_probs=log_probs.detach() if old is None else where_mask(old.detach(), batch, "old_log_probs"),
        ref_log_probs=None if ref is None else where_mask(ref.detach(), batch, "ref_log_probs"),
        advantages=where_mask(advantages.detach().to(working_dtype()), batch, "advantages"),
        dropped=dropped,
        sampler_log_probs=drawn,
    )
