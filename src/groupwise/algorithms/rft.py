"""RFT, rejection-sampling fine-tuning (Yuan et al. 2023, arXiv:2308.01825; DeepSeekMath, arXiv:2402.03300, A.1.2).

    J = E[ 1/|o| sum_t I(o) log pi_theta(o_t | q, o_<t) ]        o ~ pi_sft

    GC = I(o), 1 where o is right, else 0

Samples are drawn once from the policy as it is before training. `denominator` says what the mean is over: the right
completions ("kept"), which is SFT on them, or all, which is the equation. They differ by the factor N / N_right, a step
size that drifts with accuracy. Identical right answers to a prompt count once, and at most `max_per_prompt` do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import PositiveInt
from torch import Tensor

from groupwise.algorithms.base import AlgorithmSettings, need_verdicts
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Reads
from groupwise.core.layout import (
    Reduce,
    completions_where,
    correct_completions,
    identity,
    mask_completions,
    per_token,
    truncated_completions,
    working_dtype,
)
from groupwise.core.masks import where_mask
from groupwise.core.selection import right_completions, take_completions
from groupwise.core.weights import FORMULAS, token_weights, weighted_sum
from groupwise.types import Batch, Group


class RightAnswers(AlgorithmSettings):
    """Maximum likelihood of the completions that are right: what RFT and Online RFT share."""

    aggregation: Literal["token-mean", "seq-mean-token-mean"] = "seq-mean-token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    denominator: Literal["kept", "all"] = "kept"
    """What the mean is over: right completions, or all that were sampled."""
    accept_truncated: bool = False
    """Whether a completion that ran into the token limit can be right."""

    @property
    def reads(self) -> Reads:
        """Verdicts."""
        return Reads(frozenset({"correct"} if self.accept_truncated else {"correct", "truncated"}))

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """I(o) on each token; with "kept" wrong completions are masked."""
        need_verdicts(batch, type(self).model_fields["name"].default)
        right = correct_completions(batch)
        if not self.accept_truncated:
            right = right & ~truncated_completions(batch)
        batch = mask_completions(batch, right if self.denominator == "kept" else ~batch.rewards.isnan())
        return replace(batch, advantages=per_token(right, batch).to(working_dtype()))

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Weights by `aggregation` over what `denominator` says."""
        over: Literal["all", "nonempty"] = "all" if self.denominator == "all" else "nonempty"
        return replace(batch, token_weights=token_weights(batch, self.aggregation, reduce, denominator=over))

    def signal(self, batch: Batch) -> Tensor:
        """Right completions."""
        assert batch.advantages is not None
        return completions_where(batch, batch.advantages > 0)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The weighted negative log-likelihood of right completions."""
        assert batch.advantages is not None, "advantages are assigned before the loss"
        log_probs, right = where_mask(log_probs, batch), where_mask(batch.advantages, batch, "advantages")
        return Loss(weighted_sum(-right * log_probs, batch), right)

    def objective(self) -> str:
        """The likelihood with these settings."""
        over = "right completions" if self.denominator == "kept" else "all completions"
        weight = f"W = {FORMULAS[self.aggregation]} over {over} of the optimiser step   ({self.aggregation})"
        cut = "can be right" if self.accept_truncated else "are never right"
        indicator = f"I(o) = 1 where o is right, else 0; truncated completions {cut}"
        return f"J = Σ W I(o) log π_θ(o_t | q, o_<t)\n{indicator}\n{weight}"


class RFT(RightAnswers):
    """Fine-tuning on the right ones of samples that were drawn once."""

    name: Literal["rft"] = "rft"
    differences = (
        "Wrong samples are left out before the mean is taken; the equation averages over all samples "
        '(`denominator = "all"`), which is the same gradient times the share of right ones.',
        "Identical right answers to a prompt count once, and at most `max_per_prompt` of them do; the equation "
        "has every sample.",
        "A truncated completion is never right, unless `accept_truncated` says so.",
    )
    deduplicate: bool = True
    """Count identical right answers to a prompt once; the stop token doesn't matter."""
    max_per_prompt: PositiveInt = 4
    """The most right answers to a prompt that are trained on, the first ones."""
    needs: ClassVar[Needs] = Needs("prompts", rewards=True, sampling="once", verdicts=True)

    def keep(self, group: Group) -> str | None:
        """Drop groups without a right completion, where the mean is over right ones."""
        return "no completion is right" if self.denominator == "kept" and not self._right(group) else None

    def select(self, group: Group) -> list[Group]:
        """The right completions that are trained on; all, where the mean is over all."""
        return [take_completions(group, self._right(group)) if self.denominator == "kept" else group]

    def _right(self, group: Group) -> list[int]:
        return right_completions(
            group, accept_truncated=self.accept_truncated, deduplicate=self.deduplicate, limit=self.max_per_prompt
        )
