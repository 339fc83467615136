"""GMPO, geometric-mean policy optimisation (Zhao et al. 2025, arXiv:2507.20673).

    J = E[ 1/N sum_i geo_i A_i ]        geo_i = exp( 1/|o_i| sum_t c_t )

    c_t = min( log rho_t, e_high ) where A_i > 0,   max( log rho_t, -e_low ) where A_i < 0
    GC = geo_i A_i [token not clipped]

Clipping is per token and in log space; a clipped token still moves geo_i, by the bound. Unclipped it is GSPO
unclipped.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat

from groupwise.algorithms.group_relative import GroupRelative
from groupwise.core.masks import PolicyInputs
from groupwise.core.sequence_ratios import clipped_geometric_mean, completion_advantages
from groupwise.core.surrogates import Surrogate


class GMPO(GroupRelative):
    """Geometric means of token ratios."""

    name: Literal["gmpo"] = "gmpo"
    differences = (
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
        "One optimiser step per rollout by default, where the gradient is GRPO's; `[updates]` sets more.",
    )
    aggregation: Literal["seq-mean-token-mean"] = "seq-mean-token-mean"
    """Fixed: another one would multiply a completion's loss by its length."""
    clip_low: PositiveFloat = 0.4
    """A bad token's log-ratio is clipped below -clip_low."""
    clip_high: PositiveFloat = 0.4
    """A good token's log-ratio is clipped above clip_high."""

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-geo A at each token."""
        advantages = completion_advantages(inputs.advantages, inputs.batch, self.name)
        return clipped_geometric_mean(
            inputs.log_probs, inputs.old_log_probs, advantages, inputs.batch, self.clip_low, self.clip_high
        )

    def equation(self) -> str:
        """The geometric mean with its bounds."""
        low, high = self.clip_low, self.clip_high
        return f"A exp(mean_t clip(log ρ, {-low:g} where A < 0, {high:g} where A > 0))"
