"""Rewards of a group of completions to one advantage per completion.

    A_i = (r_i - mean(r)) / std(r)         GRPO (DeepSeekMath, arXiv:2402.03300, section 4.1.2)
    A_i =  r_i - mean(r)                   scale "none": Dr. GRPO (arXiv:2503.20783)
    A_i =  r_i - mean of the others        baseline "leave-one-out", scale "none": RLOO (arXiv:2402.14740)

The paper says only "std". Implementations differ in its kind and in the place of epsilon, so both are one
explicit object, `StdSpec`. Statistics are float64, over the completions of a group that could be scored. A
group whose rewards are tied is degenerate: its advantages are exactly 0, where rounding over a tiny
standard deviation would give a push.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import BeforeValidator, NonNegativeFloat
from torch import Tensor

from groupwise.core.layout import Reduce, identity, sum_by
from groupwise.errors import NonFiniteLogprobError
from groupwise.settings import Settings

Scale = Literal["group", "batch", "none"]
Baseline = Literal["mean", "leave-one-out"]

TIE_TOL = 1e-6


class StdSpec(Settings):
    """What "divided by the standard deviation" means."""

    kind: Literal["population", "sample", "leave-one-out"] = "population"
    """Divide the squared deviations by the number of completions, or by one less; or leave the completion itself
    out: the sample standard deviation of the others, and no division where they are tied."""
    eps: NonNegativeFloat = 1e-8
    """What keeps the divisor away from 0."""
    place: Literal["inside", "outside"] = "inside"
    """sqrt(variance + eps), which is a floor of sqrt(eps), or sqrt(variance) + eps."""

    def divisor(self, squares: Tensor, count: Tensor) -> Tensor:
        """The divisor for sums of squared deviations of `count` values each; finite for any count."""
        freedom = count if self.kind == "population" else count - 1  # "leave-one-out": `count` others
        variance = squares / freedom.clamp(min=1)
        return (variance + self.eps).sqrt() if self.place == "inside" else variance.sqrt() + self.eps

    def formula(self) -> str:
        """The divisor in plain text."""
        if self.eps == 0:
            return "std r"
        return f"sqrt(var r + {self.eps:g})" if self.place == "inside" else f"(std r + {self.eps:g})"


STD_PRESETS: dict[str, StdSpec] = {
    "seed-formula": StdSpec(kind="population", eps=1e-8, place="inside"),
    "exact": StdSpec(kind="population", eps=0.0, place="outside"),
    "seed-code": StdSpec(kind="sample", eps=1e-8, place="outside"),
    "oat": StdSpec(kind="sample", eps=1e-8, place="outside"),
    "verl": StdSpec(kind="sample", eps=1e-6, place="outside"),
    "trl": StdSpec(kind="sample", eps=1e-4, place="outside"),
    "openrlhf": StdSpec(kind="sample", eps=1e-9, place="outside"),
    "nemo-rl": StdSpec(kind="leave-one-out", eps=1e-6, place="outside"),
}
"""The conventions of other implementations, by name."""


def _by_name(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in STD_PRESETS:
        close = difflib.get_close_matches(value, STD_PRESETS, n=1)
        hint = f"did you mean {close[0]!r}" if close else f"use one of {', '.join(STD_PRESETS)}"
        raise ValueError(f"no standard deviation is called {value!r}; {hint}")
    return STD_PRESETS[value]


NamedStdSpec = Annotated[StdSpec, BeforeValidator(_by_name)]
"""A `StdSpec`, or the name of a preset."""


class GroupAdvantages(NamedTuple):
    """Advantages, and the groups that give none."""

    advantages: Tensor  # [N] float64, 0 where not scored
    degenerate: Tensor  # [K] bool


class GroupStatistics(NamedTuple):
    """What a group's values are compared with."""

    scored: Tensor  # [N] bool
    size: Tensor  # [K] float64, completions that were scored
    mean: Tensor  # [K] float64
    largest: Tensor  # [K] float64, the largest absolute value
    degenerate: Tensor  # [K] bool


def group_advantages(
    rewards: Tensor,
    group_index: Tensor,
    num_groups: int,
    std: StdSpec = STD_PRESETS["seed-formula"],
    scale: Scale = "group",
    *,
    baseline: Baseline = "mean",
    tie_tol: float = TIE_TOL,
    reduce: Reduce = identity,
) -> GroupAdvantages:
    """Advantages of completions against their own group.

    rewards [N], NaN where not scored; group_index [N] in any order. `scale` divides by the standard
    deviation of the group, of all raw rewards of the batch (over all ranks, through `reduce`), or by
    nothing. A group with fewer than two scored completions is degenerate too. A tie over the whole batch
    needs no rule of its own: it is a tie in every group. Raises `NonFiniteLogprobError` for an infinite
    reward.
    """
    rewards = rewards.detach().double()
    statistics = group_statistics(rewards, group_index, num_groups, tie_tol)
    counted = statistics.scored & ~statistics.degenerate[group_index]
    deviations = torch.where(counted, rewards - statistics.mean[group_index], 0.0)
    advantages = deviations
    if baseline == "leave-one-out":
        advantages = advantages * (statistics.size / (statistics.size - 1).clamp(min=1))[group_index]
    if scale == "group":
        divisor = group_divisor(deviations, group_index, statistics, std, tie_tol)
        advantages = advantages / torch.where(divisor > 0, divisor, 1.0)
    elif scale == "batch":
        divisor = _batch_divisor(rewards, statistics.scored, std, reduce)
        advantages = advantages / torch.where(divisor > 0, divisor, 1.0)
    return GroupAdvantages(advantages, statistics.degenerate)


def group_divisor(
    deviations: Tensor, group_index: Tensor, statistics: GroupStatistics, std: StdSpec, tie_tol: float = TIE_TOL
) -> Tensor:
    """[N] the standard deviation that each completion is divided by, from deviations that are 0 where not scored."""
    squares, count = sum_by(deviations.square(), group_index, len(statistics.size)), statistics.size
    if std.kind != "leave-one-out":
        return std.divisor(squares, count)[group_index]
    count = count[group_index]
    others = squares[group_index] - deviations.square() * count / (count - 1).clamp(min=1)
    tied = others <= (tie_tol * statistics.largest[group_index]).square()
    return torch.where(tied, 1.0, std.divisor(others, count - 1))


def degenerate_groups(rewards: Tensor, group_index: Tensor, num_groups: int, tie_tol: float = TIE_TOL) -> Tensor:
    """[K] bool: groups whose scored rewards are tied, or of which fewer than two completions were scored.

    Tied means that max(r) - min(r) <= tie_tol * max|r|, relative, so that the scale of rewards doesn't
    matter.
    """
    return group_statistics(rewards.detach().double(), group_index, num_groups, tie_tol).degenerate


def check_rewards(rewards: Tensor) -> None:
    """Raise `NonFiniteLogprobError` for an infinite one of [N]; a NaN is a completion that wasn't scored."""
    if rewards.isinf().any():
        first = int(rewards.isinf().nonzero()[0])
        raise NonFiniteLogprobError(
            f"the reward of completion {first} is {rewards[first].item()}; rewards must be finite"
        )


def group_statistics(rewards: Tensor, group_index: Tensor, num_groups: int, tie_tol: float) -> GroupStatistics:
    """Mean and size of each group's scored values [N] float64, and whether they are tied."""
    check_rewards(rewards)
    scored = ~rewards.isnan()
    count = sum_by(scored.double(), group_index, num_groups)
    mean = sum_by(torch.where(scored, rewards, 0.0), group_index, num_groups) / count.clamp(min=1)
    low = _extreme(torch.where(scored, rewards, torch.inf), group_index, num_groups, "amin")
    high = _extreme(torch.where(scored, rewards, -torch.inf), group_index, num_groups, "amax")
    largest = torch.maximum(low.abs(), high.abs())
    tied = high - low <= tie_tol * largest
    return GroupStatistics(scored, count, mean, largest, tied | (count < 2))


def _extreme(values: Tensor, group_index: Tensor, num_groups: int, which: Literal["amin", "amax"]) -> Tensor:
    start = torch.inf if which == "amin" else -torch.inf
    return values.new_full((num_groups,), start).scatter_reduce(0, group_index, values, which)


def _batch_divisor(rewards: Tensor, scored: Tensor, std: StdSpec, reduce: Reduce) -> Tensor:
    values = rewards[scored]
    total, count = reduce(torch.stack([values.sum(), scored.sum().double()]))
    squares = reduce((values - total / count.clamp(min=1)).square().sum())
    return std.divisor(squares, count)
