"""CISPO (MiniMax 2025, MiniMax-M1, arXiv:2506.13585, Eq. 3 to 5).

    J = E[ 1/sum |o| sum_i sum_t sg[ min(max(rho, floor), cap) ] A_i log pi_theta ]        GC = clip(rho) A_i

A = GRPO's. The weight is bounded, the gradient never lost: a token whose ratio ran off still learns. The paper has no
floor and doesn't publish its cap. The value of the loss contains log pi and means nothing.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from groupwise.algorithms.group_relative import GroupRelative
from groupwise.algorithms.parts import Bound
from groupwise.core.masks import PolicyInputs
from groupwise.core.surrogates import Surrogate, likelihood, truncated_weight
from groupwise.core.weights import Aggregation


class CISPO(GroupRelative):
    """Likelihood weighted by a bounded ratio."""

    name: Literal["cispo"] = "cispo"
    differences = (
        "The cap of 1.28 is a choice of this library: the paper doesn't publish its own.",
        "The optional mask of Eq. 6 is left out, and dynamic sampling and the length punishment that the paper "
        "takes over from DAPO are off until they are set.",
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
        "One optimiser step per rollout by default, where the weight is 1; the paper has 16.",
    )
    aggregation: Aggregation = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    is_cap: Bound = 1.28
    """The largest weight: the cap itself, not its distance from 1. 0: no cap."""
    is_floor: Bound = 0.0
    """The smallest weight. 0: no floor."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if 0 < self.is_cap < self.is_floor:
            raise ValueError(f"is_floor {self.is_floor:g} is above is_cap {self.is_cap:g}; lower is_floor")
        return self

    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """-sg[clip(rho)] A log pi, with the tokens counted whose weight was bounded."""
        ratio = self.ratio(inputs)
        weight = truncated_weight(ratio, self.is_cap or None, self.is_floor or None)
        surrogate = likelihood(inputs.log_probs, inputs.advantages, weight, ratio)
        value = ratio.value.detach()
        return surrogate._replace(clipped_low=weight > value, clipped_high=weight < value)

    def equation(self) -> str:
        """The weighted likelihood with its bounds."""
        cap = f"{self.is_cap:g}" if self.is_cap else "∞"
        return f"sg[clip(ρ, {self.is_floor:g}, {cap})] A log π_θ"
