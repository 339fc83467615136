"""Numeric vectors, random optimiser steps, and one way to run an algorithm on rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from groupwise.algorithms import (
    CISPO,
    DAPO,
    DPO,
    GMPO,
    GRPO,
    GSPO,
    PPO,
    RFT,
    RLOO,
    SAPO,
    SFT,
    VAPO,
    VCPPO,
    BradleyTerry,
    DrGRPO,
    GSPOToken,
    OnlineRFT,
    ProcessRewardModel,
    ReinforcePP,
    ReinforcePPBaseline,
    ValuePretraining,
)
from groupwise.core.corrections import Correction
from groupwise.core.layout import identity
from groupwise.core.rows import pack_rows, pack_values, unpack_rows
from groupwise.packing import take

_FILE = json.loads((Path(__file__).parents[1] / "data" / "vectors.json").read_text())
VECTORS: dict[str, dict[str, Any]] = {vector["id"]: vector for vector in _FILE["vectors"]}
F1: dict[str, Any] = _FILE["fixture_F1"]
F1_REWARDS = [1.0, 0.0, 1.0, 0.0]

ALGORITHMS: dict[str, Any] = {
    "grpo": GRPO(),
    "grpo-no-kl": GRPO(beta=0, clip_high=0.28, aggregation="token-mean"),
    "grpo-unbiased-kl": GRPO(kl_gradient="unbiased", denominator="nonempty"),
    "grpo-groups": GRPO(aggregation="group-token-mean", scale="batch"),
    "grpo-sums": GRPO(aggregation="seq-mean-token-sum", scale="none"),
    "grpo-constant": GRPO(beta=0, aggregation="seq-mean-token-sum-norm", length_constant=8, overlong_filter=True),
    "grpo-others-std": GRPO.model_validate({"std": "nemo-rl", "baseline": "leave-one-out"}),
    "grpo-k1-reward": GRPO(kl_estimator="k1", kl_placement="reward", beta=0.3),
    "grpo-k2": GRPO(kl_estimator="k2", overlong_filter_stats=True, dual_clip=3.0),
    "grpo-process": GRPO(supervision="process", beta=0),
    "grpo-process-outcome": GRPO(supervision="process", outcome_as_step=True, after_last_step="carry"),
    "grpo-process-means": GRPO(supervision="process", step_statistics="completions"),
    "dr_grpo": DrGRPO(length_constant=16),
    "dapo": DAPO(soft_overlong={"max_length": 6, "cache": 3}),
    "gspo": GSPO(clip_low=0.05, clip_high=0.06),
    "gspo-kl": GSPO(beta=0.1, clip_low=1.0, clip_high=1.0),
    "gspo_token": GSPOToken(clip_low=0.05, clip_high=0.06),
    "cispo": CISPO(is_cap=1.1, is_floor=0.95),
    "gmpo": GMPO(clip_low=0.1, clip_high=0.1),
    "sapo": SAPO(),
    "rloo": RLOO(beta=0.3),
    "rloo-sequences": RLOO(surrogate_form="sequence_clip"),
    "rloo-tokens": RLOO(surrogate_form="token_clip"),
    "reinforce_pp": ReinforcePP(beta=0.1, gamma=0.9),
    "reinforce_pp_baseline": ReinforcePPBaseline(beta=0.1),
    "reinforce_pp_baseline-completions": ReinforcePPBaseline(statistics="completions"),
    "ppo": PPO(beta=0.2, gamma=0.99),
    "ppo-bootstrap": PPO(terminal_value="bootstrap", whiten=False, dual_clip=3.0),
    "vc_ppo": VCPPO(),
    "vapo": VAPO(length_alpha=0.4),
    "value_pretraining": ValuePretraining(),
    "tis-token": GRPO(correction=Correction(kind="tis-token", cap=1.05)),
    "mis-seq": GRPO(correction=Correction(kind="mis-seq", cap=1.3)),
    "icepop-gspo": GSPO(clip_low=0.3, clip_high=0.3, correction=Correction(kind="icepop", floor=0.9, cap=1.1)),
    "mis-token-gmpo": GMPO(correction=Correction(kind="mis-token", cap=1.1)),
    "rft": RFT(),
    "rft-all": RFT(denominator="all", aggregation="token-mean"),
    "online_rft": OnlineRFT(),
    "sft": SFT(),
    "sft-seq": SFT(aggregation="seq-mean-token-mean"),
    "process_reward_model": ProcessRewardModel(),
}
PAIRS = {
    "dpo": DPO(),
    "dpo-means": DPO(length_normalise=True, beta=0.5),
    "dpo-smooth": DPO(label_smoothing=0.1),
    "reward_model": BradleyTerry(),
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
    sampler: Any = None
    values: Any = None
    final_values: Any = None
    correct: list[bool | None] | None = None
    step_rewards: list | None = None
    step_ends: list | None = None

    def batch(self):
        return pack_rows(
            self.mask,
            group_ids=self.groups,
            rewards=self.rewards,
            old_log_probs=self.old,
            ref_log_probs=self.ref,
            sampler_log_probs=self.sampler,
            advantages=self.advantages,
            values=self.values,
            final_values=self.final_values,
            correct=self.correct,
            step_rewards=self.step_rewards,
            step_ends=self.step_ends,
            truncated=self.truncated,
        )


PER_TOKEN = ("log_probs", "old", "ref", "sampler", "values")


def rows_of(step: Step, rows: list[int]) -> Step:
    """These completions of a step, in this order."""
    picked = {}
    for field in fields(Step):
        value = getattr(step, field.name)
        if value is not None:
            picked[field.name] = value[rows] if isinstance(value, Tensor) else [value[row] for row in rows]
    return replace(step, **picked)


def joined(first: Step, second: Step) -> Step:
    """The completions of both."""
    both = {}
    for field in fields(Step):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if one is not None:
            both[field.name] = torch.cat([one, other]) if isinstance(one, Tensor) else [*one, *other]
    return Step(**both)


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


def random_step(seed: int, *, on_policy: bool = False, whole: bool = False, pairs: bool = False) -> Step:
    """Groups in mixed order, ragged lengths, masked tokens inside, empty, truncated and unscored completions, ties.

    `whole`: nothing masked, empty, truncated or unscored. `pairs`: groups of two, next to each other, none empty.
    """
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=random)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=random))

    groups = [str(group) for group in range(integer(1, 3)) for _ in range(2 if pairs else integer(2, 4))]
    if not pairs:
        groups = [groups[i] for i in torch.randperm(len(groups), generator=random).tolist()]
    count, width = len(groups), 6
    lengths = torch.tensor([integer(1 if whole or pairs else 0, width) for _ in groups])
    mask = torch.arange(width) < lengths[:, None]
    rewards = draw(count).mul(3).floor()
    truncated = [False] * count
    if not whole:
        mask &= (draw(count, width) > 0.2) | (torch.arange(width) == 0 if pairs else False)
        rewards[draw(count) < 0.15] = float("nan")
        truncated = (draw(count) < 0.2).tolist()
    log_probs = -3 * draw(count, width)
    old = log_probs if on_policy else log_probs + 0.6 * (draw(count, width) - 0.5)
    spans = [int(row.nonzero()[-1] - row.nonzero()[0]) + 1 if row.any() else 0 for row in mask]
    ends = [sorted(integer(0, span - 1) for _ in range(integer(1, 3))) if span else [] for span in spans]
    steps = [[None if draw(1) < 0.15 else integer(0, 3) / 2 for _ in row] for row in ends]
    return Step(
        mask,
        log_probs,
        old,
        log_probs + draw(count, width) - 0.5,
        rewards,
        groups=groups,
        truncated=truncated,
        sampler=old + 0.3 * (draw(count, width) - 0.5),
        values=draw(count, width),
        final_values=draw(count),
        correct=[None if reward != reward else reward > 0 for reward in rewards.tolist()],
        step_rewards=steps,
        step_ends=ends,
    )
