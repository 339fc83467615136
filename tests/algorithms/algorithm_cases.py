"""Numeric vectors, random optimiser steps, and one way to run an algorithm on rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from groupwise.algorithms import GRPO, SFT
from groupwise.core.layout import identity
from groupwise.core.rows import pack_rows, pack_values, unpack_rows
from groupwise.packing import take

_FILE = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())
VECTORS: dict[str, dict[str, Any]] = {vector["id"]: vector for vector in _FILE["vectors"]}
F1: dict[str, Any] = _FILE["fixture_F1"]
F1_REWARDS = [1.0, 0.0, 1.0, 0.0]

ALGORITHMS = {
    "grpo": GRPO(),
    "grpo-no-kl": GRPO(beta=0, clip_high=0.28, aggregation="token-mean"),
    "grpo-unbiased-kl": GRPO(kl_gradient="unbiased", denominator="nonempty"),
    "grpo-groups": GRPO(aggregation="group-token-mean", scale="batch"),
    "grpo-sums": GRPO(aggregation="seq-mean-token-sum", scale="none"),
    "grpo-constant": GRPO(beta=0, aggregation="seq-mean-token-sum-norm", length_constant=8, overlong_filter=True),
    "sft": SFT(),
    "sft-seq": SFT(aggregation="seq-mean-token-mean"),
}


def tensor(values: list) -> Tensor:
    """A list, nested or not, with None for NaN."""
    return torch.tensor([float("nan") if value is None else value for value in values])


def assert_close(actual: Any, expected: Any, tol: float = 1e-12) -> None:
    """|a - b| <= tol * max(1, |b|), the rule of the vectors."""
    actual, expected = torch.as_tensor(actual).double(), torch.as_tensor(expected).double()
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    excess = (actual - expected).abs() - tol * expected.abs().clamp(min=1)
    assert (excess <= 0).all(), f"{actual.tolist()} is not {expected.tolist()} within {tol}"


@dataclass(frozen=True)
class Step:
    """One optimiser step in rows [N, width]."""

    mask: Any
    log_probs: Any
    old: Any = None
    ref: Any = None
    rewards: Any = None
    advantages: Any = None
    groups: list[str] | None = None
    truncated: list[bool] | None = None

    def batch(self):
        return pack_rows(
            self.mask,
            group_ids=self.groups,
            rewards=self.rewards,
            old_log_probs=self.old,
            ref_log_probs=self.ref,
            advantages=self.advantages,
            truncated=self.truncated,
        )


def f1(**changes: Any) -> Step:
    """The four completions that most loss vectors use."""
    step = Step(F1["mask"], F1["logp"], F1["old_logp"], F1["ref_logp"], F1_REWARDS, F1["advantages"])
    return replace(step, **changes)


def f1_arrays() -> dict[str, Any]:
    """Log-probs and mask of the same, as `groupwise.evaluate` takes them."""
    names = {"log_probs": "logp", "old_log_probs": "old_logp", "ref_log_probs": "ref_logp", "completion_mask": "mask"}
    return {name: F1[key] for name, key in names.items()}


def prepare(algorithm: Any, step: Step, reduce=identity):
    """The batch with advantages (credited, unless the step brings its own) and weights."""
    batch = step.batch() if step.advantages is not None else algorithm.credit(step.batch(), reduce)
    return algorithm.weigh(batch, reduce)


def run_parts(algorithm: Any, step: Step, parts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Loss and gradient [T] summed over micro-batches of these completions; weights are the whole step's."""
    batch = prepare(algorithm, step)
    log_probs = pack_values(step.log_probs, step.mask).clone().requires_grad_()
    losses = []
    for part in parts:
        tokens = torch.isin(batch.completion_index, torch.tensor(part, dtype=torch.int64))
        losses.append(algorithm.loss(take(batch, sorted(part)), log_probs[tokens]).policy)
        losses[-1].backward()
    return torch.stack(losses).detach().sum(), log_probs.grad


def run(algorithm: Any, step: Step) -> SimpleNamespace:
    """Loss, gradient, weights and coefficient as rows [N, width], and metrics, of a whole step."""
    batch = prepare(algorithm, step)
    log_probs = pack_values(step.log_probs, step.mask).clone().requires_grad_()
    loss = algorithm.loss(batch, log_probs)
    loss.policy.backward()
    rows = {
        name: unpack_rows(values, step.mask)
        for name, values in (
            ("gradient", log_probs.grad),
            ("weights", batch.token_weights),
            ("coefficient", loss.coefficient),
        )
    }
    return SimpleNamespace(loss=loss.policy.item(), metrics=loss.metrics, batch=batch, output=loss, **rows)


def random_step(seed: int, *, on_policy: bool = False, whole: bool = False) -> Step:
    """Groups in mixed order, ragged lengths, masked tokens inside, empty, truncated and unscored completions.

    `whole`: nothing masked, empty, truncated or unscored.
    """
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=random)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=random))

    groups = [str(group) for group in range(integer(1, 3)) for _ in range(integer(2, 4))]
    groups = [groups[i] for i in torch.randperm(len(groups), generator=random).tolist()]
    count, width = len(groups), 6
    lengths = torch.tensor([integer(1 if whole else 0, width) for _ in groups])
    mask = torch.arange(width) < lengths[:, None]
    rewards = draw(count).mul(3).floor()
    truncated = [False] * count
    if not whole:
        mask &= draw(count, width) > 0.2
        rewards[draw(count) < 0.15] = float("nan")
        truncated = (draw(count) < 0.2).tolist()
    log_probs = -3 * draw(count, width)
    old = log_probs if on_policy else log_probs + 0.6 * (draw(count, width) - 0.5)
    return Step(mask, log_probs, old, log_probs + draw(count, width) - 0.5, rewards, None, groups, truncated)
