"""REINFORCE++-baseline (Hu et al. 2025, arXiv:2501.03262).

    J = E[ 1/sum|o| sum { min( rho A_i, clip(rho, 1 - eps, 1 + eps) A_i ) - beta k2 } ]

    A'_i = r_i - mean r of the group,   A_i = ( A'_i - mean A' ) / std A' over the rollout step
    k2 = 1/2 log^2( pi_theta / pi_ref )        GC = rho A_i [not clipped] - beta log( pi_theta / pi_ref )

One standard deviation for the whole step, so prompts keep their weight against each other. Its statistics count a
completion once per token, or once (`statistics`); by token the second mean isn't 0 and is subtracted all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import NonNegativeFloat

from groupwise.algorithms.reinforce_pp import BATCH_STD
from groupwise.algorithms.token_clip import TokenClip
from groupwise.core.advantages import NamedStdSpec
from groupwise.core.kl import EstimatorName
from groupwise.core.layout import Reduce, completions_where, identity, per_token, working_dtype
from groupwise.core.weights import Aggregation
from groupwise.core.whitening import whiten
from groupwise.types import Batch


class ReinforcePPBaseline(TokenClip):
    """Group-centred rewards, normalised over the whole step."""

    name: Literal["reinforce_pp_baseline"] = "reinforce_pp_baseline"
    differences = (
        "The step's mean and standard deviation count a completion once per token; the paper's text counts "
        'samples (`statistics = "completions"`).',
        "One optimiser step per rollout by default, where nothing is clipped; `[updates]` sets more.",
    )
    aggregation: Aggregation = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    beta: NonNegativeFloat = 0.001
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    kl_estimator: EstimatorName = "k2"
    """How the divergence is estimated from one token: log pi/ref, half its square, or ref/pi - log ref/pi - 1."""
    scale: Literal["none"] = "none"
    """Fixed: the group gives a mean, the step the standard deviation."""
    std: NamedStdSpec = BATCH_STD
    """The standard deviation over the step: a table, or the name of one."""
    statistics: Literal["tokens", "completions"] = "tokens"
    """What mean and standard deviation of the step count."""

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Centred rewards over the step's standard deviation."""
        centred = self.completion_advantages(batch, reduce)
        batch = self.mask(batch)
        normal: dict[str, Any] = {"std": self.std, "reduce": reduce, "tie_tol": 0.0, "when_tied": "zero"}
        if self.statistics == "tokens":
            advantages = whiten(per_token(centred, batch), batch.loss_mask, **normal).values
        else:
            present = completions_where(batch, batch.loss_mask)
            advantages = per_token(whiten(centred, present, **normal).values, batch)
        return replace(batch, advantages=advantages.to(working_dtype()))

    def describe_credit(self) -> list[str]:
        """The advantage with these settings, in plain text."""
        first, *rest = super().describe_credit()
        divisor = self.std.formula().replace(" r", " A'")
        again = f"A_i = (A'_i − mean A') / {divisor} over all {self.statistics} of the step"
        return [first.replace("A_i", "A'_i"), again, *rest]
