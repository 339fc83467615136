"""Supervised fine-tuning: maximum likelihood of demonstrations (DeepSeekMath, arXiv:2402.03300, A.1.1).

    J = E[ 1/|o| sum_t log pi_theta(o_t | q, o_<t) ]          GC = 1

The equation averages over the tokens of each completion first (`seq-mean-token-mean`); nearly every trainer
averages over all tokens of the step (`token-mean`, the default here). They agree when all completions are
equally long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from torch import Tensor

from groupwise.algorithms.base import AlgorithmSettings
from groupwise.algorithms.contract import Loss, Needs
from groupwise.core.layout import Reduce, completions_where, identity
from groupwise.core.masks import where_mask
from groupwise.core.weights import FORMULAS, token_weights, weighted_sum
from groupwise.types import Batch


class SFT(AlgorithmSettings):
    """Supervised fine-tuning on demonstrations."""

    name: Literal["sft"] = "sft"
    differences = (
        "A mean over all target tokens of the step; the equation averages over each demonstration first "
        "(`seq-mean-token-mean`). They agree when all are equally long.",
    )
    aggregation: Literal["token-mean", "seq-mean-token-mean"] = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    needs: ClassVar[Needs] = Needs("demonstrations", rewards=False)

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Nothing to assign: every target token has coefficient 1."""
        return batch

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Weights by `aggregation`; a demonstration without target tokens isn't counted."""
        return replace(batch, token_weights=token_weights(batch, self.aggregation, reduce, denominator="nonempty"))

    def signal(self, batch: Batch) -> Tensor:
        """Every completion with a target token."""
        return completions_where(batch, batch.loss_mask)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The weighted negative log-likelihood of a micro-batch."""
        log_probs = where_mask(log_probs, batch)
        return Loss(weighted_sum(-log_probs, batch), batch.loss_mask.to(log_probs.dtype))

    def objective(self) -> str:
        """The likelihood with these settings."""
        mode = f"{self.aggregation}, empty completions left out"
        weight = f"W = {FORMULAS[self.aggregation]} over the optimiser step   ({mode})"
        return f"J = Σ W log π_θ(o_t | q, o_<t)\n{weight}"
