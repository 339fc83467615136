"""GRPO with outcome rewards (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, Eq. 3, 4 and 21).

    J = E[ 1/G sum_i 1/|o_i| sum_t { min( rho A_i, clip(rho, 1 - eps, 1 + eps) A_i ) - beta k3 } ]        (3)

    rho = pi_theta / pi_old       k3 = pi_ref / pi_theta - log(pi_ref / pi_theta) - 1                      (4)
    A_i = (r_i - mean r) / std r, the same for every token of o_i

The gradient coefficient is (21, with clipping)

    GC = rho A_i [not clipped] + beta (pi_ref / pi_theta - 1)

Group advantages and the weights 1/G 1/|o_i| are those of `GroupRelative`. With one update per rollout rho is
1 and nothing is clipped: the gradient is that of A_i log pi_theta. A degenerate group keeps its KL gradient.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor

from groupwise.algorithms.base import GroupRelative
from groupwise.algorithms.contract import Loss, Needs
from groupwise.core.kl import importance_weighted, k3
from groupwise.core.layout import completions_where
from groupwise.core.masks import policy_inputs
from groupwise.core.metrics import kl_metrics, policy_metrics
from groupwise.core.ratios import importance_ratio
from groupwise.core.surrogates import clipped_surrogate
from groupwise.core.weights import weighted_sum
from groupwise.types import Batch


class GRPO(GroupRelative):
    """Group relative policy optimisation, with outcome rewards."""

    name: Literal["grpo"] = "grpo"
    beta: NonNegativeFloat = 0.04
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    clip_low: PositiveFloat = 0.2
    """A bad token's ratio is clipped below 1 - clip_low; above 1 there is no bound (DeepSeek-R1 has 10)."""
    clip_high: PositiveFloat = 0.2
    """A good token's ratio is clipped above 1 + clip_high."""
    kl_gradient: Literal["as_is", "unbiased"] = "as_is"
    """k3 differentiated as printed, which gives the gradient of KL(ref ‖ policy), or times the ratio, which
    gives that of KL(policy ‖ ref)."""

    @property
    def needs(self) -> Needs:
        """Groups of two or more, and the reference only where it is used."""
        return Needs("prompts", rewards=True, min_group_size=self.min_group_size, reference=self.beta > 0)

    def signal(self, batch: Batch) -> Tensor:
        """Completions with an advantage; all that count, where the KL pulls on them."""
        assert batch.advantages is not None
        return completions_where(batch, batch.loss_mask if self.beta > 0 else batch.advantages != 0)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """-J of a micro-batch; `coefficient` is GC."""
        inputs = policy_inputs(batch, log_probs, self.on_nonfinite)
        assert self.beta == 0 or inputs.ref_log_probs is not None, "beta > 0 needs reference log-probs"
        ratio = importance_ratio(inputs.log_probs, inputs.old_log_probs, self.ratio_clamp or None)
        surrogate = clipped_surrogate(ratio, inputs.advantages, self.clip_low, self.clip_high)
        loss, coefficient = surrogate.loss, surrogate.coefficient
        metrics = policy_metrics(inputs, ratio, surrogate)
        if inputs.ref_log_probs is not None:
            kl = k3(inputs.log_probs, inputs.ref_log_probs, self.ratio_clamp or None)
            metrics |= kl_metrics(inputs, kl)
            if self.kl_gradient == "unbiased":
                kl = importance_weighted(kl, ratio)
            loss, coefficient = loss + self.beta * kl.value, coefficient - self.beta * kl.slope
        return Loss(weighted_sum(loss, inputs.batch), coefficient, metrics=metrics)

    def objective(self) -> str:
        """Eq. 3 with these settings."""
        clip = f"clip(ρ, {max(1 - self.clip_low, 0):g}, {1 + self.clip_high:g})"
        clamp = "" if self.ratio_clamp == 0 else f", |log ρ| at most {self.ratio_clamp:g}"
        penalty, reference = "", "no reference policy: beta is 0"
        if self.beta > 0:
            unbiased = self.kl_gradient == "unbiased"
            penalty = f" − {self.beta:g} {'ρ ' if unbiased else ''}k3"
            pull = "KL(π_θ ‖ π_ref)" if unbiased else "KL(π_ref ‖ π_θ)"
            reference = f"k3 = π_ref/π_θ − log(π_ref/π_θ) − 1, in the loss, with the gradient of {pull}"
        lines = [
            f"J = Σ W [ min(ρ A, {clip} A){penalty} ]",
            f"ρ = π_θ/π_old per token{clamp}",
            self.describe_advantage(),
            reference,
            self.describe_weight(),
            *self.describe_exceptions(),
        ]
        return "\n".join(lines)
