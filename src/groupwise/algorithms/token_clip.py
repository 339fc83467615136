"""PPO's clipped objective per token with advantages against the group: the loss of GRPO, Dr. GRPO and DAPO.

min( rho A, clip(rho, 1 - low, 1 + high) A )        GC = rho A [not clipped]
"""

from __future__ import annotations

from pydantic import PositiveFloat

from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.group_relative import GroupRelative
from groupwise.algorithms.parts import Bound
from groupwise.core.masks import PolicyInputs
from groupwise.core.surrogates import Surrogate, clipped_surrogate


class TokenClip(GroupRelative):
    """Ratios clipped token by token."""

    clip_low: PositiveFloat = 0.2
    """A bad token's ratio is clipped below 1 - clip_low; above 1 there is no bound (DeepSeek-R1 has 10)."""
    clip_high: PositiveFloat = 0.2
    """A good token's ratio is clipped above 1 + clip_high."""
    dual_clip: Bound = 0.0
    """The largest ratio that still pushes a bad token down; 3 is usual. 0: no such bound."""

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-min(rho A, clip(rho) A)."""
        return clipped_surrogate(self.ratio(inputs), inputs.advantages, self.clip_low, self.clip_high, self.dual_clip)

    def equation(self) -> str:
        """The clipped objective with its bounds."""
        return describe_clip(self.clip_low, self.clip_high, self.dual_clip)
