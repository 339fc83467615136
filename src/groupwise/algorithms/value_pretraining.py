"""Value pretraining (Yuan et al. 2025, VC-PPO, arXiv:2503.01491, section 4.1; VAPO, arXiv:2504.05118, section 4.1).

    L_V = 1/2 E[ (V_t - R_t)^2 ]        R = GAE(r, V; gamma, 1) + V, the return itself where gamma is 1

A stage of its own before `vc_ppo`, `vapo` or `ppo`: the policy stays as it is and samples, the critic learns what its
completions return. It ends early once the critic explains enough of the returns. GC = 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from groupwise.algorithms.actor_critic import ActorCritic
from groupwise.algorithms.base import critic_alone
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Bound, Reads
from groupwise.core.masks import PolicyInputs
from groupwise.core.surrogates import Surrogate, likelihood
from groupwise.types import Batch


class ValuePretraining(ActorCritic):
    """The critic alone, on the returns of a fixed policy."""

    name: Literal["value_pretraining"] = "value_pretraining"
    differences = (
        "The stage ends early once the critic explains half of the variance of its targets "
        "(`explained_variance`); VAPO pretrains for 50 steps.",
        "The critic starts as a copy of the policy with a head of zeros; VAPO's starts from a reward model "
        "(`critic.start`).",
    )
    lam: float = Field(default=1.0, ge=0, le=1)
    """The trace of the critic's targets: 1 is the return."""
    whiten: bool = False
    """Nothing to whiten: advantages aren't used."""
    value_clip: Bound = 0.0
    """How far a value may move from the old one before its loss gives no more gradient; 0: no limit."""
    explained_variance: float = Field(default=0.5, le=1)
    """End the stage once the critic explains this share of the returns' variance."""

    @property
    def needs(self) -> Needs:
        """A critic, and a policy that isn't trained."""
        return replace(super().needs, policy=False, until=("explained_variance", self.explained_variance))

    @property
    def reads(self) -> Reads:
        """Nothing of the policy."""
        reads = super().reads
        return Reads(reads.credit, reads.loss - {"advantages", "old_log_probs"})

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """Nothing."""
        return likelihood(inputs.log_probs, torch.zeros_like(inputs.advantages))

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The critic's loss; the policy's is 0."""
        return replace(critic_alone(batch, log_probs), value=self.critic_loss(batch, values))

    def equation(self) -> str:
        """Nothing of the policy: minus the critic's loss."""
        return "−L_V"

    def describe_credit(self) -> list[str]:
        """What the critic learns; advantages aren't used."""
        return [
            "L_V trains the critic alone; the policy samples, and is not trained",
            f"L_V = {self.describe_critic()}",
        ]
