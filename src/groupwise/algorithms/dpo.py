"""DPO, direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290; DeepSeekMath, arXiv:2402.03300, A.1.4).

    J = E[ log sigmoid(M) ]        M = beta [ (S+ - S+_ref) - (S- - S-_ref) ],  S = sum_t log pi(o_t | q, o_<t)

    GC = beta sigmoid(-M) on every token of the chosen completion, -beta sigmoid(-M) on the rejected one

`length_normalise` takes the mean over a completion's tokens in place of the sum, as DeepSeekMath writes it; W is then
1/(P |o|), else 1/P, over P pairs. (That appendix prints a wrong index in the term of the rejected completion, leaves
beta out of its coefficient, and gives the sigmoid the ratios of single tokens; the equation above is what it derives.)
A pair is a group of two, the chosen completion first; it is never split. Pairs are those of a data set, or are made of
samples that were drawn once from the policy as it is before training: the best right ones against the worst wrong ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn.functional import logsigmoid

from groupwise.algorithms.base import AlgorithmSettings
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Reads
from groupwise.core.layout import Reduce, completions_where, identity, per_completion, per_token
from groupwise.core.masks import where_mask
from groupwise.core.metrics import pair_metrics
from groupwise.core.selection import chosen_completions, need_tokens, preference_pairs, unusable_pair
from groupwise.core.weights import token_weights
from groupwise.types import Batch, Group


class DPO(AlgorithmSettings):
    """Preferences of one completion over another."""

    name: Literal["dpo"] = "dpo"
    differences = (
        "Sums over tokens, as in Rafailov et al.; DeepSeekMath's appendix has means (`length_normalise`).",
        "That appendix prints a wrong index, an argument of the sigmoid and a coefficient without beta that "
        "don't follow from its objective; the gradient here is that of the objective.",
        "Pairs of two identical completions are dropped: their gradients cancel.",
    )
    beta: PositiveFloat = 0.1
    """How far from the reference a preference may move the policy: smaller moves further."""
    length_normalise: bool = False
    """Compare means over tokens in place of sums."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """The share of preferences taken to be the wrong way round."""
    pairs_from: Literal["data", "samples"] = "data"
    """Rows with `chosen` and `rejected`, or the policy's own samples, scored."""
    pairs_per_prompt: PositiveInt = 1
    """The most pairs made of the samples of one prompt."""

    @property
    def needs(self) -> Needs:
        """Pairs and a reference; or verdicts on samples, to make pairs of."""
        if self.pairs_from == "data":
            return Needs("pairs", rewards=False, min_group_size=2, reference=True, couples_groups=True)
        return Needs(
            "prompts",
            rewards=True,
            min_group_size=2,
            sampling="once",
            verdicts=True,
            reference=True,
            couples_groups=True,
        )

    def select(self, group: Group) -> list[Group]:
        """The group, where it is a pair already; the pairs that can be made of it, where it was sampled and scored."""
        made = self.pairs_from == "data" or all(score is None for score in group.scores)
        return [group] if made else preference_pairs(group, self.pairs_per_prompt)

    @property
    def reads(self) -> Reads:
        """Pairs and the reference."""
        return Reads(loss=frozenset({"pair_ids", "ref_log_probs"}))

    def keep(self, group: Group) -> str | None:
        """Drop pairs that can teach nothing: identical completions. Raises `DataError` for an empty one."""
        return unusable_pair(group)

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Nothing to assign: the pair says it. Raises `DataError` for groups that aren't pairs, or half empty."""
        chosen_completions(batch)
        need_tokens(batch)
        return batch

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """A mean over the pairs of the step: half the completions."""
        mode: Literal["seq-mean-token-mean", "seq-mean-token-sum"]
        mode = "seq-mean-token-mean" if self.length_normalise else "seq-mean-token-sum"
        return replace(batch, token_weights=2 * token_weights(batch, mode, reduce))

    def signal(self, batch: Batch) -> Tensor:
        """All."""
        return completions_where(batch, batch.loss_mask)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """-log sigmoid(M), averaged over the pairs of the step."""
        assert batch.ref_log_probs is not None and batch.token_weights is not None, "dpo needs a reference and weights"
        log_probs = where_mask(log_probs, batch)
        reference = where_mask(batch.ref_log_probs.detach(), batch, "ref_log_probs")
        lengths = per_completion(batch.loss_mask.to(log_probs.dtype), batch).clamp(min=1)
        totals = per_completion(log_probs - reference, batch) / (lengths if self.length_normalise else 1)
        chosen = chosen_completions(batch)
        sign = torch.where(chosen, 1.0, -1.0).to(totals.dtype)
        margin = self.beta * totals.new_zeros(len(batch.group_ids)).index_add(0, batch.group_index, sign * totals)
        smooth = self.label_smoothing
        loss = -(1 - smooth) * logsigmoid(margin) - smooth * logsigmoid(-margin)
        weight = per_completion(batch.token_weights, batch) / (1 if self.length_normalise else lengths)
        counted = chosen & (weight > 0)
        push = (torch.sigmoid(-margin) - smooth).detach()[batch.group_index] * self.beta * sign
        total = (weight[counted] * loss[batch.group_index[counted]]).sum()
        coefficient = torch.where(batch.loss_mask, per_token(push, batch), 0.0)
        return Loss(total, coefficient, metrics=pair_metrics(margin.detach(), lengths, chosen))

    def objective(self) -> str:
        """The preference with these settings."""
        kind, weight = ("mean", "1 / (|o| P)") if self.length_normalise else ("sum", "1 / P")
        smooth = f", {self.label_smoothing:g} of the preferences taken as wrong" if self.label_smoothing else ""
        return (
            f"J = 1/P Σ over P pairs of log sigmoid(M){smooth}\n"
            f"M = {self.beta:g} [(S⁺ − S⁺_ref) − (S⁻ − S⁻_ref)], S = {kind} over tokens of log π(o_t | q, o_<t)\n"
            f"W = {weight}"
        )
