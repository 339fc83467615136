"""VAPO (Yue et al. 2025, arXiv:2504.05118, Eq. 4 to 10).

    J = 1/sum|o| sum min( rho_t A_t, clip(rho_t, 1 - eps_low, 1 + eps_high) A_t ) + mu 1/sum_T|o| sum_T log pi     (10)

    A = GAE(r, V; gamma, lambda_i),  lambda_i = 1 - 1/(alpha |o_i|)  (5)        R = GAE(r, V; gamma, 1) + V
    GC = rho_t A_t [not clipped] + mu [o in T] sum|o| / sum_T|o|

T are the right completions of the optimiser step: good answers are imitated as well. VC-PPO's critic, with a trace that
grows with length, clip-higher and token means. Advantages come from the critic, not from the group. The formula for
lambda is negative below 1/alpha tokens; there it is 0. The critic is pretrained by a stage with `value_pretraining`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

from groupwise.algorithms.base import need_verdicts
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Bound, Reads
from groupwise.algorithms.vc_ppo import VCPPO
from groupwise.core.gae import length_adaptive_lambda
from groupwise.core.layout import Reduce, correct_completions, identity, mask_completions, per_completion
from groupwise.core.masks import where_mask
from groupwise.core.weights import token_weights
from groupwise.types import Batch


class VAPO(VCPPO):
    """Value-based augmented PPO."""

    name: Literal["vapo"] = "vapo"  # type: ignore[assignment]
    differences = (
        "The formula of the trace is negative for completions below 1/alpha = 20 tokens; there lambda is "
        "`lam_floor`, 0.",
        "Value pretraining is a stage of its own, `value_pretraining`, before this one.",
        "Advantages are whitened over the rollout step and the critic's loss is clipped, as in `ppo` (`whiten`, "
        "`value_clip`).",
        "One optimiser step per rollout by default, where nothing is clipped; `[updates]` sets more.",
    )
    clip_high: PositiveFloat = 0.28
    """A good token's ratio is clipped above 1 + clip_high."""
    length_alpha: Bound = 0.05
    """alpha of the trace's formula, 1 - 1/(alpha |o|). 0: `lam` for every length."""
    lam_floor: float = Field(default=0.0, ge=0, le=1)
    """The smallest trace of a short completion."""
    nll_coefficient: NonNegativeFloat = 0.1
    """mu, the weight of imitating right completions."""

    @property
    def needs(self) -> Needs:
        """Verdicts, for the imitation."""
        return replace(super().needs, verdicts=True) if self.nll_coefficient > 0 else super().needs

    @property
    def reads(self) -> Reads:
        """Verdicts, for the imitation."""
        return super().reads.also(loss={"correct"}) if self.nll_coefficient > 0 else super().reads

    def trace(self, batch: Batch) -> float | Tensor:
        """lambda of each completion, by its tokens that count."""
        if self.length_alpha == 0:
            return self.lam
        lengths = per_completion(batch.loss_mask.double(), batch)
        return length_adaptive_lambda(lengths, self.length_alpha, self.lam_floor)

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """A token mean over right completions, too."""
        batch = super().weigh(batch, reduce)
        if self.nll_coefficient == 0:
            return batch
        need_verdicts(batch, self.name)
        right = token_weights(mask_completions(batch, correct_completions(batch)), "token-mean", reduce)
        return replace(batch, likelihood_weights=right)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """PPO's loss and the negative log-likelihood of right completions."""
        loss = super().loss(batch, log_probs, values)
        if batch.likelihood_weights is None:
            return loss
        assert batch.token_weights is not None
        weights = self.nll_coefficient * batch.likelihood_weights
        finite = batch.loss_mask & (log_probs.detach().isfinite() | (self.on_nonfinite == "error"))
        imitation = -torch.where(finite, weights * where_mask(log_probs, replace(batch, loss_mask=finite)), 0.0).sum()
        share = torch.where(finite & (batch.token_weights > 0), weights / batch.token_weights, 0.0)
        return replace(loss, policy=loss.policy + imitation, coefficient=loss.coefficient + share)

    def describe_trace(self) -> str:
        """The trace's formula with its numbers."""
        if self.length_alpha == 0:
            return super().describe_trace()
        return f"1 − 1/({self.length_alpha:g} |o|), at least {self.lam_floor:g}"

    def equation(self) -> str:
        """PPO's objective and the imitation."""
        return f"{super().equation()} + {self.nll_coefficient:g} Σ|o| / Σ_right|o| log π_θ where right"
