"""GSPO-token, with advantages that may differ by token (Zheng et al. 2025, arXiv:2507.18071, Eq. 13 to 17).

    J = E[ 1/G sum_i 1/|o_i| sum_t min( s_it A_it, clip(s_it, 1 - eps_low, 1 + eps_high) A_it ) ]           (13)

    s_it = sg[s_i] pi_theta / sg[pi_theta]  (14)        GC = s_i A_it [not clipped]

With one advantage per completion its value and gradient are those of GSPO.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat

from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.group_relative import GroupRelative
from groupwise.core.masks import PolicyInputs
from groupwise.core.sequence_ratios import token_varied_ratio
from groupwise.core.surrogates import Surrogate, clipped_surrogate


class GSPOToken(GroupRelative):
    """Ratios of whole completions, gradients of single tokens."""

    name: Literal["gspo_token"] = "gspo_token"
    differences = (
        "In training every token has the advantage of its completion, and so the gradient is GSPO's; the paper's "
        "use for it, advantages that differ by token, is open to `groupwise.evaluate` and to algorithms built on "
        "it.",
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
    )
    aggregation: Literal["seq-mean-token-mean"] = "seq-mean-token-mean"
    """Fixed: another one would multiply a completion's loss by its length."""
    clip_low: PositiveFloat = 3e-4
    """A bad completion's ratio is clipped below 1 - clip_low."""
    clip_high: PositiveFloat = 4e-4
    """A good completion's ratio is clipped above 1 + clip_high."""

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-min(s_t A_t, clip(s_t) A_t)."""
        ratio = token_varied_ratio(inputs.log_probs, inputs.old_log_probs, inputs.batch, self.ratio_clamp or None)
        return clipped_surrogate(ratio, inputs.advantages, self.clip_low, self.clip_high)

    def equation(self) -> str:
        """The clipped objective with its bounds."""
        return (
            describe_clip(self.clip_low, self.clip_high).replace("ρ", "s") + " with s = sg[exp(mean_t log ρ)] π/sg[π]"
        )
