"""PPO with a critic, as it is used for language models (Schulman et al. 2017, arXiv:1707.06347; Ziegler et al. 2019,
arXiv:1909.08593; Ouyang et al. 2022, arXiv:2203.02155).

    J = E[ min( rho_t A_t, clip(rho_t, 1 - eps, 1 + eps) A_t ) ]        GC = rho_t A_t [not clipped]

    A = GAE(r, V; gamma, lambda), whitened        r_t = [t = last] score - beta log( pi_old / pi_ref )
    L_V = 1/2 max( (V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2 ),  R = A + V before whitening

Token means throughout; DeepSeekMath's Eq. 1 has `seq-mean-token-mean`. With one update per rollout rho is 1 and
GC = A_t.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from groupwise.algorithms.actor_critic import ActorCritic
from groupwise.algorithms.describe import describe_clip
from groupwise.algorithms.parts import Bound
from groupwise.core.masks import PolicyInputs
from groupwise.core.surrogates import Surrogate, clipped_surrogate


class PPO(ActorCritic):
    """Proximal policy optimisation with a critic."""

    name: Literal["ppo"] = "ppo"
    differences: ClassVar[tuple[str, ...]] = (
        "A mean over all tokens of the step; DeepSeekMath's Eq. 1 averages over each completion first "
        "(`seq-mean-token-mean`).",
        "The KL in the reward is that of the policy that sampled, log(pi_old / pi_ref), as every implementation "
        "has it; papers print pi_theta.",
        "Advantages are whitened over the rollout step, and the critic's loss is clipped: details of "
        "implementations that the objective doesn't print (`whiten`, `value_clip`).",
        "One optimiser step per rollout by default, where nothing is clipped; `[updates]` sets more.",
    )
    beta: NonNegativeFloat = 0.05
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    clip_low: PositiveFloat = 0.2
    """A bad token's ratio is clipped below 1 - clip_low."""
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
