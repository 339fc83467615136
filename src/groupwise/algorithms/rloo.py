"""RLOO, REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv:2402.14740; Kool et al. 2019).

    J = E[ 1/N sum_i A_i log pi_theta(o_i | q) ]        A_i = R_i - mean of the others' R

    R_i = r_i - beta sum_t log( pi_old / pi_ref )        GC = A_i        W = 1 / N

The whole completion is one action, and the baseline doesn't hold its own reward: the gradient is unbiased. No clip, no
ratio, no standard deviation. `surrogate_form` has the two forms that other systems call by this name: PPO's clip on the
product of a completion's ratios, and on the ratio of each token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat

from groupwise.algorithms.contract import Needs
from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.group_relative import GroupRelative
from groupwise.algorithms.parts import Reads
from groupwise.core.advantages import Baseline, Scale
from groupwise.core.kl import EstimatorName
from groupwise.core.layout import per_completion, per_token
from groupwise.core.masks import PolicyInputs
from groupwise.core.sequence_ratios import completion_advantages, product_ratio
from groupwise.core.surrogates import Surrogate, clipped_surrogate, likelihood


class RLOO(GroupRelative):
    """REINFORCE against the mean of the other completions."""

    name: Literal["rloo"] = "rloo"
    differences = (
        "Plain REINFORCE, as in the paper; the clipped forms that other trainers call RLOO are `surrogate_form`.",
        "The KL in the reward is taken at the policy that sampled, and rewards are tied only where it is equal too.",
    )
    baseline: Baseline = "leave-one-out"
    """What is subtracted: the mean of the group, or that of its other completions."""
    scale: Scale = "none"
    """Whose standard deviation: the group's, that of all rewards of the rollout step, or none."""
    aggregation: Literal["seq-mean-token-sum"] = "seq-mean-token-sum"
    """Fixed: the whole completion is one action."""
    beta: NonNegativeFloat = 0.05
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    kl_estimator: EstimatorName = "k1"
    """How the divergence is estimated from one token: log pi/ref, half its square, or ref/pi - log ref/pi - 1."""
    kl_placement: Literal["loss", "reward"] = "reward"
    """Whether the estimate is differentiated, or subtracted from the reward."""
    surrogate_form: Literal["reinforce", "sequence_clip", "token_clip"] = "reinforce"
    """A log pi; or clipped ratios, of completions or of tokens."""
    clip_low: PositiveFloat = 0.2
    """Of the clipped forms: a bad ratio is clipped below 1 - clip_low."""
    clip_high: PositiveFloat = 0.2
    """Of the clipped forms: a good ratio is clipped above 1 + clip_high."""

    @property
    def needs(self) -> Needs:
        """REINFORCE has no ratio that could correct for stale samples."""
        return replace(super().needs, on_policy=self.surrogate_form == "reinforce")

    @property
    def reads(self) -> Reads:
        """REINFORCE compares with no old policy, but for a KL or a correction."""
        reads, plain = super().reads, self.surrogate_form == "reinforce" and self.correction is None
        return Reads(reads.credit, reads.loss - {"old_log_probs"}) if plain else reads

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-A log pi, or a clipped form."""
        if self.surrogate_form == "reinforce":
            return likelihood(inputs.log_probs, inputs.advantages)
        if self.surrogate_form == "token_clip":
            return clipped_surrogate(self.ratio(inputs), inputs.advantages, self.clip_low, self.clip_high)
        batch = inputs.batch
        advantages = completion_advantages(inputs.advantages, batch, self.name)
        ratio = product_ratio(inputs.log_probs, inputs.old_log_probs, batch, self.ratio_clamp or None)
        whole = clipped_surrogate(ratio, advantages, self.clip_low, self.clip_high)
        tokens = per_token(per_completion(batch.loss_mask.to(ratio.value.dtype), batch).clamp(min=1), batch)
        return whole._replace(loss=whole.loss / tokens.clamp(min=1), whole=True)

    def equation(self) -> str:
        """The form with its bounds."""
        if self.surrogate_form == "reinforce":
            return "A log π_θ"
        clipped = describe_clip(self.clip_low, self.clip_high)
        return (
            clipped if self.surrogate_form == "token_clip" else clipped.replace("ρ", "Π_t ρ") + " once per completion"
        )
