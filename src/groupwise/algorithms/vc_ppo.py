"""VC-PPO, value-calibrated PPO (Yuan et al. 2025, arXiv:2503.01491).

PPO with decoupled GAE: the policy's advantages have lambda 0.95, the critic's targets lambda 1,

    A = GAE(r, V; gamma, 0.95)        R = GAE(r, V; gamma, 1) + V,

so that a long completion's reward reaches its first tokens in the critic, undiscounted by a trace. Its critic is
pretrained: a stage with `value_pretraining` before this one. GC = rho_t A_t [not clipped].
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat

from groupwise.algorithms.ppo import PPO


class VCPPO(PPO):
    """PPO with a pretrained critic and a trace of its own for it."""

    name: Literal["vc_ppo"] = "vc_ppo"  # type: ignore[assignment]
    differences: ClassVar[tuple[str, ...]] = (
        "Value pretraining is a stage of its own, `value_pretraining`, before this one; alone, this is PPO with "
        "two traces.",
        "Advantages are whitened over the rollout step and the critic's loss is clipped, as in `ppo` (`whiten`, "
        "`value_clip`).",
        "No KL unless `beta` is set.",
    )
    beta: NonNegativeFloat = 0.0
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    critic_lam: float = Field(default=1.0, ge=0, le=1)
    """The trace of the critic's targets."""
