"""Evaluation under metric names of its own: the test split, sampled with its own settings, and what is written there.

Prompts are the independent draws, so intervals are clustered by prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from groupwise.algorithms.contract import Algorithm
from groupwise.packing import take, unpack
from groupwise.sources.live import Sampler
from groupwise.statistics.intervals import ratio_interval
from groupwise.telemetry.metrics import clustered_interval, completion_metrics, merged, score_metrics
from groupwise.training.update import Update
from groupwise.types import Batch, Group, Mean, Prompt

NOTHING_SAMPLED: dict[str, Any] = {
    "reward": None,
    "reward_interval": None,
    "reward_parts": {},
    "correct": None,
    "completion_length": None,
    "truncated": None,
    "not_scored": None,
    "prompts": 0,
    "samples": 0,
    "seconds": 0.0,
}
"""What an evaluation's row holds where nothing is sampled."""


def evaluate(sampler: Sampler, prompts: Sequence[Prompt]) -> tuple[list[Group], dict[str, Any]]:
    """Sample and score the test prompts; the groups, and the object that an evaluation's row holds.

    Every evaluation of a run draws with the same keys, so two of them differ by the policy alone.
    """
    gathered = sampler.gather([(prompt, 0) for prompt in prompts])
    groups = list(gathered.groups)
    scores, lengths = score_metrics(groups), completion_metrics(groups)
    low_high = clustered_interval(groups)
    return groups, {
        "reward": scores["reward_mean"],
        "reward_interval": None if low_high is None else list(low_high),
        "reward_parts": scores["reward_parts"],
        "correct": scores["correct_mean"],
        "completion_length": lengths["completion_length_mean"],
        "truncated": lengths["frac_truncated"],
        "not_scored": scores["frac_not_scored"],
        "prompts": len(groups),
        "samples": sampler.group_size,
        "seconds": sum(gathered.seconds.values()),
    }


@torch.no_grad()
def evaluate_written(update: Update, algorithm: Algorithm, batch: Batch) -> dict[str, Any]:
    """The loss of a stage on credited groups that nothing trains on, and the metrics that come with it.

    `held_out`: name to value; `held_out_interval`: name to the ends of its 95 % interval; `held_out_groups`.
    """
    batch = algorithm.weigh(batch)
    loss = 0.0
    parts: list[dict[str, Mean]] = []
    groups = batch.group_index.tolist()
    for number in range(len(batch.group_ids)):
        group = take(batch, [completion for completion, owner in enumerate(groups) if owner == number])
        found, _ = update.forward(algorithm, group)
        loss += float(found.policy) + (0.0 if found.value is None else float(found.value))
        parts.append({name: metric for name, metric in found.metrics.items() if isinstance(metric, Mean)})
    clusters: dict[tuple[int, ...], list[dict[str, Mean]]] = {}
    for (prompt, _), part in zip(unpack(batch), parts, strict=True):
        clusters.setdefault(prompt, []).append(part)
    values = merged(parts)
    intervals = {name: _interval(name, list(clusters.values())) for name in values}
    return {
        "held_out": {"loss": loss, **values},
        "held_out_interval": {name: list(ends) for name, ends in intervals.items() if ends is not None},
        "held_out_groups": len(batch.group_ids),
    }


def _interval(name: str, clusters: Sequence[Sequence[dict[str, Mean]]]) -> tuple[float, float] | None:
    """Of one metric, from those of the groups of each prompt."""
    sums = [
        (sum(part[name].total for part in cluster), sum(part[name].count for part in cluster)) for cluster in clusters
    ]
    counted = [(total, count) for total, count in sums if count]
    return ratio_interval([total for total, _ in counted], [count for _, count in counted])
