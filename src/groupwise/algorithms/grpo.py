"""GRPO (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300, Eq. 3, 4 and 21; sections 4.1.2 to 4.1.4).

    J = E[ 1/G sum_i 1/|o_i| sum_t { min( rho A, clip(rho, 1 - eps, 1 + eps) A ) - beta k3 } ]              (3)

    rho = pi_theta / pi_old       k3 = pi_ref / pi_theta - log(pi_ref / pi_theta) - 1                       (4)

    outcome supervision:  A_i   = (r_i - mean r) / std r, the same for every token of o_i
    process supervision:  A_i,t = sum of (r - mean R) / std R over the steps that end at or after t

R is every step reward of the group. The gradient coefficient is (21, with clipping)

    GC = rho A [not clipped] + beta (pi_ref / pi_theta - 1)

With one update per rollout rho is 1 and nothing is clipped: the gradient is that of A log pi_theta. A degenerate group
keeps its KL gradient. `reference_refresh` makes it iterative.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeFloat

from groupwise.algorithms.contract import Needs
from groupwise.algorithms.parts import Reads
from groupwise.algorithms.supervision import ProcessSettings
from groupwise.algorithms.token_clip import TokenClip
from groupwise.core.layout import Reduce, identity
from groupwise.types import Batch


class GRPO(TokenClip, ProcessSettings):
    """Group relative policy optimisation, with outcome or process supervision."""

    name: Literal["grpo"] = "grpo"
    differences = (
        'The paper prints only "std" and no clip range: here they are sqrt(population variance + 1e-8) and 0.2.',
        "Tied rewards give advantages of exactly 0, where others divide rounding errors by an epsilon.",
        "Completions without a score leave the statistics and the loss, and stay in N, as empty ones do.",
        "Iterative GRPO moves the reference alone: rewards are verifiers, so no reward model is trained on.",
    )
    beta: NonNegativeFloat = 0.04
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    supervision: Literal["outcome", "process"] = "outcome"
    """Rewards of whole completions, or of their reasoning steps."""

    @property
    def needs(self) -> Needs:
        """Groups of two or more; with process supervision rewards of steps."""
        return replace(super().needs, step_rewards=self.supervision == "process")

    @property
    def reads(self) -> Reads:
        """By the kind of supervision."""
        return self.step_reads(super().reads) if self.supervision == "process" else super().reads

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Advantages against the group."""
        return self.step_credit(batch, reduce) if self.supervision == "process" else super().credit(batch, reduce)

    def describe_credit(self) -> list[str]:
        """The advantage with these settings, in plain text."""
        return self.describe_steps() if self.supervision == "process" else super().describe_credit()
