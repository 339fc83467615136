"""Evaluation: the test split, sampled with settings of its own, under metric names of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupwise.sources.live import Sampler
from groupwise.telemetry.metrics import clustered_interval, completion_metrics, score_metrics
from groupwise.types import Group, Prompt


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
