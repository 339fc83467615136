"""Reward models from preferences (Bradley and Terry 1952; Ouyang et al. 2022, arXiv:2203.02155, section 3.5).

    J = E[ log sigmoid(r+ - r-) ] - centring E[ (r+ + r-)^2 ]          GC = 0

r is the critic's number after the last token of a completion, r+ of the chosen one and r- of the rejected one. The loss
knows r up to a constant: the head has no bias, and the second term (Eisenstein et al. 2023, arXiv:2312.09244)
holds scores near 0. A pair is a group of two, the chosen completion first; it is never split. The policy stands still:
it only says with which weights the reward model begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeFloat
from torch import Tensor
from torch.nn.functional import logsigmoid

from groupwise.algorithms.base import AlgorithmSettings, critic_alone
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Reads
from groupwise.core.layout import Reduce, completions_where, identity, per_completion
from groupwise.core.masks import where_mask
from groupwise.core.metrics import pair_metrics
from groupwise.core.scan import last_tokens
from groupwise.core.selection import chosen_completions, need_tokens, unusable_pair
from groupwise.core.weights import token_weights
from groupwise.types import Batch, Group, Mean


class BradleyTerry(AlgorithmSettings):
    """A model that scores completions, from preferences of one over another."""

    name: Literal["reward_model"] = "reward_model"
    differences = (
        "One pair per group and a mean over the pairs of a step; Ouyang et al. take all pairs of a ranking of 4 to 9 "
        "completions together, and weigh them by how many that ranking has.",
        "The head starts at zero, so every pair is tied before the first step; the papers leave open how it starts.",
        "Pairs of two identical completions are dropped: their gradients cancel.",
    )
    centring: NonNegativeFloat = 0.0
    """Weight of the squared sum of a pair's two scores, which holds scores near 0; 0.01 is usual where it is used."""
    needs: ClassVar[Needs] = Needs(
        "pairs",
        rewards=False,
        min_group_size=2,
        critic=True,
        judges="completions",
        policy=False,
        couples_groups=True,
    )

    @property
    def reads(self) -> Reads:
        """Pairs and what the model says of them."""
        return Reads(loss=frozenset({"pair_ids", "values"}))

    def keep(self, group: Group) -> str | None:
        """Drop pairs that can teach nothing: identical completions. Raises `DataError` for an empty one."""
        return unusable_pair(group)

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """The last token of each completion counts alone. Raises `DataError` for groups that aren't pairs."""
        chosen_completions(batch)
        need_tokens(batch)
        last = torch.zeros_like(batch.loss_mask)
        last[last_tokens(batch)] = True
        return replace(batch, loss_mask=last)

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """A mean over the pairs of the step: half the completions."""
        return replace(batch, token_weights=2 * token_weights(batch, "seq-mean-token-sum", reduce))

    def signal(self, batch: Batch) -> Tensor:
        """All."""
        return completions_where(batch, batch.loss_mask)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The critic's: -log sigmoid(r+ - r-), averaged over the pairs of the step. The policy's is 0."""
        if values is None:
            return critic_alone(batch, log_probs)
        assert batch.token_weights is not None, "weights are assigned before the loss"
        scores = per_completion(where_mask(values, batch, "values"), batch)
        weights = per_completion(batch.token_weights, batch)
        chosen = chosen_completions(batch)
        order = batch.group_index[~chosen].argsort()[batch.group_index[chosen]]
        high, low = scores[chosen], scores[~chosen][order]
        losses = self.centring * (high + low).square() - logsigmoid(high - low)
        lengths = torch.tensor([end - start for start, end in batch.completion_spans], device=scores.device)
        metrics = pair_metrics((high - low).detach(), lengths, chosen)
        sides = {"chosen_score": high, "rejected_score": low}
        metrics |= {name: Mean(float(side.detach().sum()), len(side)) for name, side in sides.items()}
        return replace(critic_alone(batch, log_probs), value=(weights[chosen] * losses).sum(), metrics=metrics)

    def objective(self) -> str:
        """The preference with these settings."""
        centring = f" − {self.centring:g} (r⁺ + r⁻)²" if self.centring else ""
        return (
            f"J = 1/P Σ over P pairs of log sigmoid(r⁺ − r⁻){centring}\n"
            "r = the critic's number after a completion's last token; the policy is not trained"
        )
