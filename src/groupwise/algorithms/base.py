"""What algorithms share: their settings, and the half of GRPO that its descendants keep.

`AlgorithmSettings` is the base of all. `GroupRelative` holds what happens before the loss in the GRPO family:
advantages against the group, which completions count, and the weights of their tokens.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Self

import torch
from pydantic import NonNegativeFloat, PositiveInt, model_validator
from torch import Tensor

from groupwise.core.advantages import STD_PRESETS, TIE_TOL, NamedStdSpec, Scale, group_advantages
from groupwise.core.layout import Reduce, identity, mask_completions, per_token, working_dtype
from groupwise.core.masks import OnNonFinite
from groupwise.core.ratios import CLAMP
from groupwise.core.weights import FORMULAS, Aggregation, Denominator, token_weights
from groupwise.settings import Settings
from groupwise.types import Batch, Group


class AlgorithmSettings(Settings):
    """The base of every algorithm; see `groupwise.algorithms.contract`."""

    def keep(self, group: Group) -> str | None:
        """Drop a group in which scoring was tried and no completion got a score: nothing in it can count."""
        values = [score.value for score in group.scores if score is not None]
        if values and all(value is None or math.isnan(value) for value in values):
            return "no completion was scored"
        return None


class GroupRelative(AlgorithmSettings):
    """Advantages against the group's own mean, for GRPO and its descendants."""

    std: NamedStdSpec = STD_PRESETS["seed-formula"]
    """The standard deviation that advantages are divided by: a table, or one of `seed-formula`, `exact`,
    `seed-code`, `oat`, `verl`, `trl`, `openrlhf`."""
    scale: Scale = "group"
    """Whose standard deviation: the group's, that of all rewards of the rollout step, or none."""
    tie_tol: NonNegativeFloat = TIE_TOL
    """Rewards of a group within this share of the largest are tied: advantages of exactly 0."""
    allow_singleton: bool = False
    """Accept groups of one completion, whose advantage is 0."""
    aggregation: Aggregation = "seq-mean-token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    denominator: Denominator = "all"
    """Whether completions without any token that counts stay in the number that the mean divides by."""
    norm_length: PositiveInt | None = None
    """The constant L of `seq-mean-token-sum-norm`: the largest number of tokens of a completion."""
    overlong_filter: bool = False
    """Take truncated completions out of the loss and its denominators, not out of the group's statistics."""
    overlong_filter_stats: bool = False
    """Take truncated completions out of the group's statistics as well as the loss."""
    ratio_clamp: NonNegativeFloat = CLAMP
    """Largest log-ratio, either way, that enters an exponential; beyond it the gradient is 0. 0: no limit."""
    on_nonfinite: OnNonFinite = "error"
    """A log-prob that is not finite skips the optimiser step, or with `drop` only leaves that token out."""

    @model_validator(mode="after")
    def _norm_length_is_set(self) -> Self:
        if self.aggregation == "seq-mean-token-sum-norm" and self.norm_length is None:
            raise ValueError("aggregation 'seq-mean-token-sum-norm' needs norm_length; set it to a number of tokens")
        return self

    @property
    def min_group_size(self) -> int:
        """A group of one has no baseline."""
        return 1 if self.allow_singleton else 2

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """One advantage per completion, on each of its tokens; masks what wasn't scored, or is filtered."""
        counted, rewards = ~batch.rewards.isnan(), batch.rewards
        if self.overlong_filter or self.overlong_filter_stats:
            reasons = [reason == "length" for reason in batch.finish_reasons]
            truncated = torch.tensor(reasons, dtype=torch.bool, device=rewards.device)
            counted = counted & ~truncated
            if self.overlong_filter_stats:
                rewards = rewards.masked_fill(truncated, torch.nan)
        advantages, _ = group_advantages(
            rewards,
            batch.group_index,
            len(batch.group_ids),
            self.std,
            self.scale,
            tie_tol=self.tie_tol,
            reduce=reduce,
        )
        batch = mask_completions(batch, counted)
        return replace(batch, advantages=per_token(advantages, batch).to(working_dtype()))

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Tensor:
        """Weights by `aggregation`, over the whole optimiser step."""
        return token_weights(
            batch, self.aggregation, reduce, denominator=self.denominator, norm_length=self.norm_length
        )

    def describe_advantage(self) -> str:
        """The advantage with these settings, in plain text."""
        if self.scale == "none":
            return "A_i = r_i − mean r of the group, not divided by a standard deviation"
        kind = f"{self.std.kind} std of the {self.scale}"
        return f"A_i = (r_i − mean r of the group) / {self.std.formula()}   ({kind})"

    def describe_weight(self) -> str:
        """The aggregation with these settings, in plain text."""
        empty = "counted" if self.denominator == "all" else "left out"
        constant = f", L = {self.norm_length}" if self.norm_length is not None else ""
        mode = f"{self.aggregation}, empty completions {empty}{constant}"
        return f"W = {FORMULAS[self.aggregation]} over the optimiser step   ({mode})"

    def describe_exceptions(self) -> list[str]:
        """What happens to tied groups, to completions without a score, to truncated ones."""
        truncated = "count like any other"
        if self.overlong_filter_stats:
            truncated = "leave the loss and the statistics of their group"
        elif self.overlong_filter:
            truncated = "leave the loss, not the statistics of their group"
        tied = f"rewards within {self.tie_tol:g} of the largest, or fewer than two"
        return [
            f"degenerate groups ({tied}) have A_i = 0",
            "completions without a score leave loss and statistics",
            f"truncated completions {truncated}",
        ]
