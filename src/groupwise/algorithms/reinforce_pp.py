"""REINFORCE++ (Hu et al. 2025, arXiv:2501.03262).

    J = E[ 1/sum|o| sum min( rho_t A_t, clip(rho_t, 1 - eps, 1 + eps) A_t ) ]        GC = rho_t A_t [not clipped]

    A_t = ( R_t - mean R ) / std R over all tokens of the rollout step,   R_t = sum_{s >= t} gamma^(s-t) r_s
    r_t = [t = last] score - beta log( pi_old / pi_ref )

No critic and no group: the baseline is the step's own mean, so one completion per prompt is enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.policy_gradient import PolicyGradient
from groupwise.core.advantages import TIE_TOL, NamedStdSpec, StdSpec
from groupwise.core.kl import EstimatorName
from groupwise.core.layout import Reduce, identity, working_dtype
from groupwise.core.masks import PolicyInputs
from groupwise.core.scan import suffix_sums
from groupwise.core.surrogates import Surrogate, clipped_surrogate
from groupwise.core.token_rewards import token_rewards
from groupwise.core.weights import Aggregation
from groupwise.core.whitening import whiten
from groupwise.types import Batch

BATCH_STD = StdSpec(kind="population", eps=1e-8, place="outside")


class ReinforcePP(PolicyGradient):
    """Returns per token, normalised over the whole step."""

    name: Literal["reinforce_pp"] = "reinforce_pp"
    differences = (
        "Mean and standard deviation are over the tokens of the rollout step, so long completions weigh more in "
        "them; the paper's text counts samples.",
        "One optimiser step per rollout by default, where nothing is clipped; `[updates]` sets more.",
    )
    aggregation: Aggregation = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    beta: NonNegativeFloat = 0.001
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    kl_estimator: EstimatorName = "k1"
    """How the divergence is estimated from one token: log pi/ref, half its square, or ref/pi - log ref/pi - 1."""
    kl_placement: Literal["loss", "reward"] = "reward"
    """Whether the estimate is differentiated, or subtracted from the reward."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per token."""
    std: NamedStdSpec = BATCH_STD
    """The standard deviation over the tokens of the step: a table, or the name of one."""
    tie_tol: NonNegativeFloat = TIE_TOL
    """Returns whose deviations are within this share of their size are tied: advantages of exactly 0."""
    clip_low: PositiveFloat = 0.2
    """A bad token's ratio is clipped below 1 - clip_low."""
    clip_high: PositiveFloat = 0.2
    """A good token's ratio is clipped above 1 + clip_high."""

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Normalised returns, per token."""
        batch = self.mask(batch)
        scores = torch.where(batch.rewards.isnan(), 0.0, self.scores(batch))
        rewards = token_rewards(batch, scores, self.beta if self.kl_in_reward else 0.0, self.kl_estimator)
        returns = suffix_sums(rewards, batch, batch.loss_mask, self.gamma)
        advantages = whiten(returns, batch.loss_mask, self.std, reduce, tie_tol=self.tie_tol, when_tied="zero").values
        return replace(batch, advantages=advantages.to(working_dtype()))

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-min(rho A, clip(rho) A)."""
        return clipped_surrogate(self.ratio(inputs), inputs.advantages, self.clip_low, self.clip_high)

    def equation(self) -> str:
        """The clipped objective with its bounds."""
        return describe_clip(self.clip_low, self.clip_high)

    def describe_credit(self) -> list[str]:
        """The advantage with these settings, in plain text."""
        divisor = self.std.formula().replace(" r", " R")
        return [f"A_t = (R_t − mean R) / {divisor} over all tokens of the step, R_t = return with γ = {self.gamma:g}"]
