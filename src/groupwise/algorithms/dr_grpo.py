"""Dr. GRPO, GRPO done right (Liu et al. 2025, arXiv:2503.20783).

    J = E[ 1/N sum_i 1/L sum_t min( rho A_i, clip(rho, 1 - eps, 1 + eps) A_i ) ]        A_i = r_i - mean r

    GC = rho A_i [not clipped]        W = 1 / (N L)

L is a constant of the run, the generation budget. Without 1/|o_i| a wrong answer isn't pushed less for being long;
without the standard deviation very easy and very hard prompts don't weigh more. The mean still holds r_i, so the
expected gradient is (G - 1)/G of the true one: a constant factor.
"""

from __future__ import annotations

from typing import Literal

from groupwise.algorithms.token_clip import TokenClip
from groupwise.core.advantages import Scale
from groupwise.core.weights import Aggregation


class DrGRPO(TokenClip):
    """GRPO without its length and difficulty biases."""

    name: Literal["dr_grpo"] = "dr_grpo"
    differences = (
        "L is the run's largest number of tokens of a completion; the authors' code has its own generation "
        "budget, 3000 (`length_constant`). It scales the gradient and nothing else.",
        "Tied rewards give advantages of exactly 0.",
    )
    scale: Scale = "none"
    """Whose standard deviation: the group's, that of all rewards of the rollout step, or none."""
    aggregation: Aggregation = "seq-mean-token-sum-norm"
    """How losses of tokens are averaged, over the whole optimiser step."""
