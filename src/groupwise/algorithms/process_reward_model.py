"""Process reward models from labelled steps (Lightman et al. 2023, arXiv:2305.20050, section 2.6; Wang et al. 2023,
Math-Shepherd, arXiv:2312.08935, Eq. 2).

    J = E over labelled steps [ y log sigmoid(s) + (1 - y) log(1 - sigmoid(s)) ]          GC = 0

s is the critic's number after the last token of a step, y its label: 1 right, 0 wrong, or the chance that it is right.
Steps without a label are read and not judged. The policy stands still: it only says with which weights the process
reward model begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from groupwise.algorithms.base import AlgorithmSettings, critic_alone
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Reads
from groupwise.core.layout import Reduce, completions_where, identity, working_dtype
from groupwise.core.masks import where_mask
from groupwise.core.metrics import step_metrics
from groupwise.core.process_rewards import scored_steps
from groupwise.core.weights import token_weights, weighted_sum
from groupwise.types import Batch


class ProcessRewardModel(AlgorithmSettings):
    """A model that scores reasoning steps, from labels of steps."""

    name: Literal["process_reward_model"] = "process_reward_model"
    differences = (
        "One number per step and its sigmoid, as Math-Shepherd's equation has it; Lightman et al. train the language "
        "model to say a token for right or wrong, and so do Math-Shepherd's published models.",
        "A mean over the labelled steps of the whole optimiser step; Eq. 2 of Math-Shepherd sums over the steps of a "
        "solution.",
    )
    needs: ClassVar[Needs] = Needs("steps", rewards=False, critic=True, judges="steps", policy=False)

    @property
    def reads(self) -> Reads:
        """Labels, as step rewards, and what the model says of the steps."""
        return Reads(credit=frozenset({"step_rewards", "step_ends"}), loss=frozenset({"values"}))

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """The last tokens of labelled steps count alone, and their labels are the critic's targets.

        Where steps share a token the lowest label holds. Raises `DataError` for steps that aren't in order.
        """
        steps = scored_steps(batch)
        steps_end = torch.zeros_like(batch.loss_mask)
        steps_end[steps.tokens] = True
        targets = torch.zeros(len(batch.token_ids), dtype=torch.float64, device=batch.rewards.device)
        targets = targets.scatter_reduce(0, steps.tokens, steps.rewards, "amin", include_self=False)
        return replace(batch, loss_mask=batch.loss_mask & steps_end, returns=targets.to(working_dtype()))

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """A mean over the labelled steps of the optimiser step."""
        return replace(batch, token_weights=token_weights(batch, "token-mean", reduce))

    def signal(self, batch: Batch) -> Tensor:
        """Every completion with a labelled step."""
        return completions_where(batch, batch.loss_mask)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The critic's: binary cross-entropy, averaged over the labelled steps. The policy's is 0."""
        if values is None:
            return critic_alone(batch, log_probs)
        assert batch.returns is not None, "labels are the targets that credit assigns"
        logits = where_mask(values, batch, "values")
        labels = batch.returns.to(logits.dtype)
        losses = binary_cross_entropy_with_logits(logits, labels, reduction="none")
        counted = batch.loss_mask
        metrics = step_metrics(logits.detach()[counted], labels[counted])
        return replace(critic_alone(batch, log_probs), value=weighted_sum(losses, batch), metrics=metrics)

    def objective(self) -> str:
        """The likelihood of the labels."""
        return (
            "J = 1/S Σ over S labelled steps of y log σ(s) + (1 − y) log(1 − σ(s))\n"
            "s = the critic's number after a step's last token; the policy is not trained"
        )
