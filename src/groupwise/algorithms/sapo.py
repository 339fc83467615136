"""SAPO, soft adaptive policy optimisation (Gao et al. 2025, arXiv:2511.20347).

    J = E[ 1/N sum_i 1/|o_i| sum_t f(rho) A_i ]        f(x) = 4/tau sigmoid( tau (x - 1) )

    GC = 4 p (1 - p) rho A_i,  p = sigmoid( tau (rho - 1) ),  tau = tau_pos where A_i > 0, else tau_neg

A smooth gate in the place of clipping: its weight is 1 at rho = 1 and falls on both sides, for both signs. The value of
the loss at rho = 1 is 2 A / tau, so it doesn't compare with that of clipped objectives.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveFloat

from groupwise.algorithms.group_relative import GroupRelative
from groupwise.core.masks import PolicyInputs
from groupwise.core.surrogates import Surrogate, soft_gate


class SAPO(GroupRelative):
    """A soft gate on the ratio."""

    name: Literal["sapo"] = "sapo"
    differences = (
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
        "One optimiser step per rollout by default, where the gate is 1 and the gradient is GRPO's; `[updates]` "
        "sets more.",
    )
    tau_pos: PositiveFloat = 1.0
    """How sharply good tokens are gated."""
    tau_neg: PositiveFloat = 1.05
    """How sharply bad tokens are gated."""

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-f(rho) A."""
        return soft_gate(self.ratio(inputs), inputs.advantages, self.tau_pos, self.tau_neg)

    def equation(self) -> str:
        """The gate with its temperatures."""
        return f"4/τ sigmoid(τ (ρ − 1)) A with τ = {self.tau_pos:g} where A > 0, else {self.tau_neg:g}"
