"""Advantages against the group's own mean: the half of GRPO that its descendants keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from pydantic import NonNegativeFloat, model_validator
from torch import Tensor

from groupwise.algorithms.contract import Needs
from groupwise.algorithms.parts import Reads
from groupwise.algorithms.policy_gradient import PolicyGradient
from groupwise.core.advantages import (
    STD_PRESETS,
    TIE_TOL,
    Baseline,
    NamedStdSpec,
    Scale,
    degenerate_groups,
    group_advantages,
)
from groupwise.core.layout import Reduce, identity, mask_completions, per_token, truncated_completions, working_dtype
from groupwise.core.token_rewards import kl_of_completions
from groupwise.types import Batch, Mean, Metric


class GroupRelative(PolicyGradient):
    """One advantage per completion: its reward less the mean of its group, over a standard deviation."""

    std: NamedStdSpec = STD_PRESETS["seed-formula"]
    """The standard deviation that advantages are divided by: a table, or one of `seed-formula`, `exact`,
    `seed-code`, `oat`, `verl`, `trl`, `openrlhf`, `nemo-rl`."""
    scale: Scale = "group"
    """Whose standard deviation: the group's, that of all rewards of the rollout step, or none."""
    baseline: Baseline = "mean"
    """What is subtracted: the mean of the group, or that of its other completions."""
    tie_tol: NonNegativeFloat = TIE_TOL
    """Rewards of a group within this share of the largest are tied: advantages of exactly 0."""
    allow_singleton: bool = False
    """Accept groups of one completion, whose advantage is 0."""
    overlong_filter_stats: bool = False
    """Take truncated completions out of the group's statistics as well as the loss."""

    @model_validator(mode="after")
    def _std_fits(self) -> Self:
        if self.std.kind == "leave-one-out" and self.scale == "batch":
            raise ValueError("a leave-one-out std is that of a group; use scale 'group', or another std")
        return self

    @property
    def needs(self) -> Needs:
        """Groups of two or more."""
        return replace(super().needs, min_group_size=1 if self.allow_singleton else 2)

    @property
    def reads(self) -> Reads:
        """Groups too."""
        truncated = {"truncated"} if self.overlong_filter_stats else set()
        return super().reads.also({"group_ids"} | truncated, truncated)

    def mask(self, batch: Batch) -> Batch:
        """Mask what was not scored, and truncated completions where they are filtered."""
        batch = super().mask(batch)
        return mask_completions(batch, ~truncated_completions(batch)) if self.overlong_filter_stats else batch

    def compared(self, batch: Batch) -> Tensor:
        """[N] what is compared within a group, NaN where left out: scores, less the KL that stands in the reward."""
        rewards = self.scores(batch)
        if self.kl_in_reward:
            scored = mask_completions(batch, ~batch.rewards.isnan())
            rewards = rewards - self.beta * kl_of_completions(scored, self.kl_estimator)
        return rewards.masked_fill(truncated_completions(batch), torch.nan) if self.overlong_filter_stats else rewards

    def completion_advantages(self, batch: Batch, reduce: Reduce = identity) -> Tensor:
        """[N] float64."""
        return group_advantages(
            self.compared(batch),
            batch.group_index,
            len(batch.group_ids),
            self.std,
            self.scale,
            baseline=self.baseline,
            tie_tol=self.tie_tol,
            reduce=reduce,
        ).advantages

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """One advantage per completion, on each of its tokens; masks what wasn't scored, or is filtered."""
        advantages = self.completion_advantages(batch, reduce)
        batch = self.mask(batch)
        return replace(batch, advantages=per_token(advantages, batch).to(working_dtype()))

    def diagnose(self, batch: Batch, reduce: Reduce = identity) -> dict[str, Metric]:
        """The share of groups that give no advantage, too."""
        tied = degenerate_groups(self.compared(batch), batch.group_index, len(batch.group_ids), self.tie_tol)
        total, count = reduce(torch.stack([tied.double().sum(), tied.new_ones(len(tied)).double().sum()])).tolist()
        return super().diagnose(batch, reduce) | {"frac_degenerate_groups": Mean(total, count)}

    def describe_credit(self) -> list[str]:
        """The advantage with these settings, in plain text."""
        mean = "mean r of the group" if self.baseline == "mean" else "mean r of the others in the group"
        tied = f"degenerate groups (rewards within {self.tie_tol:g} of the largest, or fewer than two) have A_i = 0"
        left = ["truncated completions leave the statistics too"] if self.overlong_filter_stats else []
        if self.scale == "none":
            return [f"A_i = r_i − {mean}, not divided by a standard deviation", tied, *left]
        return [f"A_i = (r_i − {mean}) / {self.std.formula()}   ({self.std.kind} std of the {self.scale})", tied, *left]
