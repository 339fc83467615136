"""Advantages from rewards of reasoning steps (DeepSeekMath, arXiv:2402.03300, section 4.1.3).

    R = all step rewards of all completions of a group      r~ = (r - mean R) / std R
    A_t = sum of r~ over the steps that end at or after token t

A completion with many steps weighs more in the statistics, and |A| grows with the number of steps still to come. With
one step that ends at the last token this is outcome supervision. Tokens after the last step get 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from groupwise.core.advantages import (
    STD_PRESETS,
    TIE_TOL,
    Scale,
    StdSpec,
    group_advantages,
    group_divisor,
    group_statistics,
)
from groupwise.core.layout import Reduce, identity, sum_by
from groupwise.core.scan import suffix_sums
from groupwise.errors import DataError
from groupwise.types import Batch

StepStatistics = Literal["steps", "completions"]


class Steps(NamedTuple):
    """The steps of all completions that have a reward, end to end."""

    rewards: Tensor  # [S] float64
    owners: Tensor  # [S] int64: the completion of each
    tokens: Tensor  # [S] int64: its last token, on the flat axis


class ProcessAdvantages(NamedTuple):
    """Advantages per token, and the groups that give none."""

    advantages: Tensor  # [T] float64
    degenerate: Tensor  # [K] bool


def scored_steps(batch: Batch, *, outcome_as_step: bool = False) -> Steps:
    """The steps with a reward; a step whose reward is None or NaN is left out.

    `outcome_as_step` adds the completion's own reward as a step that ends at its last token. Raises `DataError` for
    steps that aren't in order, lie outside their completion, or have no reward each.
    """
    found: list[tuple[float, int, int]] = []
    outcomes = batch.rewards.tolist()
    for owner, (start, end) in enumerate(batch.completion_spans):
        rewards, ends = batch.step_rewards[owner] or (), batch.step_ends[owner] or ()
        _check(rewards, ends, end - start, owner)
        for reward, place in zip(rewards, ends, strict=True):
            if reward is not None and reward == reward:
                found.append((float(reward), owner, start + place))
        if outcome_as_step and end > start and outcomes[owner] == outcomes[owner]:
            found.append((outcomes[owner], owner, end - 1))
    device = batch.rewards.device
    return Steps(
        torch.tensor([reward for reward, _, _ in found], dtype=torch.float64, device=device),
        torch.tensor([owner for _, owner, _ in found], dtype=torch.int64, device=device),
        torch.tensor([token for _, _, token in found], dtype=torch.int64, device=device),
    )


def process_advantages(
    batch: Batch,
    std: StdSpec = STD_PRESETS["seed-formula"],
    scale: Scale = "group",
    *,
    statistics: StepStatistics = "steps",
    outcome_as_step: bool = False,
    after_last_step: Literal["zero", "carry"] = "zero",
    tie_tol: float = TIE_TOL,
    reduce: Reduce = identity,
) -> ProcessAdvantages:
    """Advantages [T] float64 of a batch with step rewards.

    `statistics` over the steps of the group, or over one mean per completion. `after_last_step` "carry" gives the
    tokens after the last step that step's own normalised reward. A group whose step rewards are tied, or that has
    fewer than two, is degenerate.
    """
    steps = scored_steps(batch, outcome_as_step=outcome_as_step)
    groups, count = batch.group_index[steps.owners], len(batch.group_ids)
    if statistics == "steps":
        normalised, degenerate = group_advantages(
            steps.rewards, groups, count, std, scale, tie_tol=tie_tol, reduce=reduce
        )
    else:
        normalised, degenerate = _against_completion_means(steps, batch, std, scale, tie_tol)
    rewards = torch.zeros(len(batch.token_ids), dtype=torch.float64, device=steps.rewards.device)
    rewards = rewards.index_add(0, steps.tokens, normalised)
    inside = batch.completion_index >= 0
    advantages = suffix_sums(rewards, batch, inside)
    if after_last_step == "carry":
        last = {owner: place for place, owner in enumerate(steps.owners.tolist())}
        for owner, place in last.items():
            tail = slice(int(steps.tokens[place]) + 1, batch.completion_spans[owner][1])
            advantages[tail] = normalised[place]
    return ProcessAdvantages(advantages, degenerate)


def _against_completion_means(
    steps: Steps, batch: Batch, std: StdSpec, scale: Scale, tie_tol: float
) -> tuple[Tensor, Tensor]:
    """Steps normalised with the mean and standard deviation of the completions' mean step rewards."""
    size = len(batch.completion_spans)
    number = sum_by(torch.ones_like(steps.rewards), steps.owners, size)
    means = sum_by(steps.rewards, steps.owners, size) / number
    groups = batch.group_index[steps.owners]
    found = group_statistics(means, batch.group_index, len(batch.group_ids), tie_tol)
    counted = found.scored & ~found.degenerate[batch.group_index]
    deviations = torch.where(counted, means - found.mean[batch.group_index], 0.0)
    divisor = group_divisor(deviations, batch.group_index, found, std, tie_tol)[steps.owners] if scale == "group" else 1
    centred = torch.where(found.degenerate[groups], 0.0, steps.rewards - found.mean[groups])
    return centred / divisor, found.degenerate


def _check(rewards: tuple[float | None, ...], ends: tuple[int, ...], length: int, owner: int) -> None:
    if len(rewards) != len(ends):
        raise DataError(
            f"completion {owner} has {len(rewards)} step rewards and {len(ends)} step ends", fix="give one of each"
        )
    if any(later < earlier for earlier, later in zip(ends, ends[1:], strict=False)):
        raise DataError(f"completion {owner} has steps that end at {list(ends)}", fix="give steps in order")
    if any(not 0 <= place < length for place in ends):
        raise DataError(
            f"completion {owner} has {length} tokens and steps that end at {list(ends)}",
            fix="count step ends from 0 within the completion",
        )
