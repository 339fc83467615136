"""GSPO, group sequence policy optimisation (Zheng et al. 2025, arXiv:2507.18071, Eq. 5 to 10).

    J = E[ 1/G sum_i min( s_i A_i, clip(s_i, 1 - eps_low, 1 + eps_high) A_i ) ]                             (5)

    s_i = exp( 1/|o_i| sum_t log rho_t )  (7)        GC = s_i A_i [completion not clipped]

The ratio is that of the completion, normalised by its length, so every token of a completion weighs the same and
clipping takes whole completions out. Its clip range is far narrower than that of token ratios. With one update per
rollout s_i is 1 and the gradient is GRPO's.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat

from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.group_relative import GroupRelative
from groupwise.core.masks import PolicyInputs
from groupwise.core.sequence_ratios import completion_advantages, sequence_ratio
from groupwise.core.surrogates import Surrogate, clipped_surrogate


class GSPO(GroupRelative):
    """Ratios of whole completions."""

    name: Literal["gspo"] = "gspo"
    differences = (
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
        "One optimiser step per rollout by default, where the gradient is GRPO's; the paper has four minibatches.",
    )
    aggregation: Literal["seq-mean-token-mean"] = "seq-mean-token-mean"
    """Fixed: another one would multiply a completion's loss by its length."""
    clip_low: PositiveFloat = 3e-4
    """A bad completion's ratio is clipped below 1 - clip_low."""
    clip_high: PositiveFloat = 4e-4
    """A good completion's ratio is clipped above 1 + clip_high."""

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-min(s A, clip(s) A) at each token."""
        advantages = completion_advantages(inputs.advantages, inputs.batch, self.name)
        ratio = sequence_ratio(inputs.log_probs, inputs.old_log_probs, inputs.batch, self.ratio_clamp or None)
        return clipped_surrogate(ratio, advantages, self.clip_low, self.clip_high)._replace(whole=True)

    def equation(self) -> str:
        """The clipped objective with its bounds."""
        return describe_clip(self.clip_low, self.clip_high).replace("ρ", "s") + " with s = exp(mean_t log ρ)"
