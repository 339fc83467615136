"""Online RFT (DeepSeekMath, Shao et al. 2024, arXiv:2402.03300, A.1.3, Eq. 11).

    J = E[ 1/|o| sum_t I(o) log pi_theta(o_t | q, o_<t) ]        o ~ pi_theta

    GC = I(o), 1 where o is right, else 0

RFT with samples of the policy as it is now: REINFORCE with rewards of 1 and 0, no baseline, and a length-normalised
likelihood; GRPO without its negative half. No ratio corrects for several updates per rollout.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from groupwise.algorithms.contract import Needs
from groupwise.algorithms.rft import RightAnswers


class OnlineRFT(RightAnswers):
    """Fine-tuning on the right ones of the policy's own samples."""

    name: Literal["online_rft"] = "online_rft"
    differences = (
        "The objective is Eq. 11 as printed, a mean over right and wrong completions alike.",
        "A truncated completion is never right, unless `accept_truncated` says so.",
    )
    denominator: Literal["kept", "all"] = "all"
    """What the mean is over: right completions, or all that were sampled."""
    needs: ClassVar[Needs] = Needs("prompts", rewards=True, verdicts=True, on_policy=True)
