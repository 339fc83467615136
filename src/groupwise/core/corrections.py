"""Corrections for samples that another engine drew, with slightly other probabilities than the trainer computes.

    r_t = pi_old(o_t) / pi_sampler(o_t)        loss_t <- w_t loss_t

    tis-token            w_t = min(r_t, cap)                                       Yao et al. 2025
    tis-seq              w   = min(prod_t r_t, cap)
    mis-token            w_t = r_t where floor <= r_t <= cap, else 0               Liu, Li et al. 2025
    mis-seq              w   = prod_t r_t where it is at most cap, else 0
    geo-rs               w   = 1 where floor <= (prod_t r_t)^(1/|o|) <= cap, else 0
    k3-rs                w   = 1 where mean_t (r_t - log r_t - 1) <= cap, else 0
    icepop               w_t = r_t where floor <= r_t <= cap, else 0
    offpolicy-seq-mask   w_t = 0 where A_t < 0 and mean_t (log pi_sampler - log pi_theta) > cap, else 1
                                                                                   DeepSeek-V3.2 (arXiv:2512.02556)

Weights per token ignore that the prefix was drawn differently too; weights per completion don't, and vary
exponentially with length. Weights are detached; they never change what a loss divides by, and never touch the KL. With
equal log-probs every one is 1, but for the last, which looks at the current policy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import torch
from pydantic import PositiveFloat, model_validator
from torch import Tensor

from groupwise.core.layout import per_completion, per_completion_mean, per_token
from groupwise.core.masks import PolicyInputs
from groupwise.core.ratios import CLAMP
from groupwise.core.surrogates import Surrogate
from groupwise.settings import Settings

CorrectionKind = Literal[
    "tis-token", "tis-seq", "mis-token", "mis-seq", "geo-rs", "k3-rs", "icepop", "offpolicy-seq-mask"
]

BOUNDS: dict[CorrectionKind, tuple[float | None, float | None]] = {
    "tis-token": (None, 2.0),
    "tis-seq": (None, 2.0),
    "mis-token": (None, 2.0),
    "mis-seq": (None, 3.0),
    "geo-rs": (0.999, 1.001),
    "k3-rs": (None, 0.01),
    "icepop": (0.5, 5.0),
    "offpolicy-seq-mask": (None, None),
}
"""The usual floor and cap of each; None: no floor, or none that is usual."""


class Correction(Settings):
    """A correction for samples of another engine: a table, or its kind alone."""

    kind: CorrectionKind
    """See `groupwise.core.corrections`."""
    cap: PositiveFloat | None = None
    """The upper bound; None: the usual one of the kind (2 for `tis-token`)."""
    floor: PositiveFloat | None = None
    """The lower bound, for `mis-token`, `geo-rs` and `icepop`; None: the usual one of the kind."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind == "offpolicy-seq-mask" and self.cap is None:
            raise ValueError("correction 'offpolicy-seq-mask' has no usual bound; set cap, in nats per token")
        if self.floor is not None and self.kind not in ("mis-token", "geo-rs", "icepop"):
            raise ValueError(f"correction {self.kind!r} has no lower bound; leave floor out")
        low, high = self.bounds()
        if low > high:
            raise ValueError(f"correction {self.kind!r} has floor {low:g} above cap {high:g}; lower the floor")
        return self

    def bounds(self) -> tuple[float, float]:
        """Floor and cap as they apply."""
        floor, cap = BOUNDS[self.kind]
        low, high = self.floor if self.floor is not None else floor, self.cap if self.cap is not None else cap
        return (0.0 if low is None else low), (float("inf") if high is None else high)


class Corrected(NamedTuple):
    """The weight of each token, and what the metrics need."""

    weight: Tensor  # [T] detached
    bounded: Tensor  # [T] bool: the ratio was beyond a bound


def correction_weights(correction: Correction, inputs: PolicyInputs) -> Corrected:
    """[T] weights for the tokens of `inputs`, which must have the sampler's log-probs."""
    batch, sampler = inputs.batch, inputs.sampler_log_probs
    assert sampler is not None, "a correction needs the sampler's log-probs"
    floor, cap = correction.bounds()
    if correction.kind == "offpolicy-seq-mask":
        drift = per_token(per_completion_mean(sampler - inputs.log_probs.detach(), batch), batch)
        off = (inputs.advantages < 0) & (drift > cap)
        return Corrected(torch.where(off, 0.0, torch.ones_like(sampler)), off)
    log_ratio = (inputs.old_log_probs - sampler).clamp(-CLAMP, CLAMP)
    ratio = log_ratio.exp()
    match correction.kind:
        case "tis-seq" | "mis-seq":
            total = per_completion(torch.where(batch.loss_mask, inputs.old_log_probs - sampler, 0.0), batch)
            ratio = per_token(total.clamp(-CLAMP, CLAMP).exp(), batch)
        case "geo-rs":
            ratio = per_token(per_completion_mean(log_ratio, batch).exp(), batch)
        case "k3-rs":
            ratio = per_token(per_completion_mean(ratio - log_ratio - 1, batch), batch)
    beyond = (ratio > cap) | (ratio < floor)
    match correction.kind:
        case "tis-token" | "tis-seq":
            weight = ratio.clamp(max=cap)
        case "geo-rs" | "k3-rs":
            weight = torch.where(beyond, 0.0, torch.ones_like(ratio))
        case _:
            weight = torch.where(beyond, 0.0, ratio)
    return Corrected(weight, beyond)


def apply_correction(weight: Tensor, surrogate: Surrogate, inputs: PolicyInputs) -> Surrogate:
    """The surrogate with its loss times `weight` [T].

    Where every token's loss is that of the whole completion, a token's gradient comes from all of them: its
    coefficient is multiplied by the mean weight of the completion.
    """
    push = per_token(per_completion_mean(weight, inputs.batch), inputs.batch) if surrogate.whole else weight
    return surrogate._replace(loss=weight * surrogate.loss, coefficient=push * surrogate.coefficient)
