"""The runs that `plan.py` plans and measures: three models, each with every kind of run.

Imported by each run's own process, so it needs little beside the standard library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scenarios import Scenario

from groupwise.planning.lengths import Lengths

SAMPLES, PROMPT, MEAN = 8, 64, 32
LARGE, SPLIT, SMALLEST = 16384, PROMPT + SAMPLES * MEAN // 2, PROMPT + MEAN
"""Micro-batches that take the step, half a group, and one completion with its prompt."""

GROUPS = {"tiny": 4, "30m": 2, "135m": 1}
"""By model: groups of one step, so that a step takes seconds."""


@dataclass(frozen=True)
class Combination:
    """One run."""

    model: str
    kind: str
    algorithm: Mapping[str, Any] = field(default_factory=lambda: {"name": "grpo", "beta": 0.0})
    micro_batch_tokens: int = LARGE
    checkpointing: bool = False
    lora: bool = False
    most: int = MEAN
    """Tokens of the longest completion; the mean is the same in all runs."""

    @property
    def name(self) -> str:
        return f"{self.model} {self.kind}"

    @property
    def lengths(self) -> Lengths:
        return Lengths(MEAN, self.most)

    @property
    def scenario(self) -> Scenario:
        return Planned(self.name, GROUPS[self.model], PROMPT, MEAN, self.most, SAMPLES)

    @property
    def critic(self) -> bool:
        return self.algorithm["name"] == "ppo"

    @property
    def reference(self) -> bool:
        return self.algorithm["beta"] > 0


class Planned(Scenario):
    """With the lengths that planning reckons with."""

    def lengths(self) -> list[int]:
        return Lengths(self.mean_tokens, self.max_tokens).dealt(self.group_size)


def combinations() -> Iterator[Combination]:
    """Every model with every kind of run."""
    kl, ppo, ppo_kl = ({"name": name, "beta": beta} for name, beta in (("grpo", 0.04), ("ppo", 0.0), ("ppo", 0.05)))
    for model in GROUPS:
        yield Combination(model, "grpo")
        yield Combination(model, "grpo split", micro_batch_tokens=SPLIT)
        yield Combination(model, "grpo smallest", micro_batch_tokens=SMALLEST)
        yield Combination(model, "grpo ragged", most=2 * MEAN)
        yield Combination(model, "grpo checkpointing", checkpointing=True)
        yield Combination(model, "grpo-kl", kl)
        yield Combination(model, "grpo-kl split checkpointing", kl, SPLIT, True)
        yield Combination(model, "ppo", ppo)
        yield Combination(model, "ppo-kl", ppo_kl)
        yield Combination(model, "lora", lora=True)
        yield Combination(model, "lora kl checkpointing", kl, checkpointing=True, lora=True)


def run_table(combination: Combination, source: str) -> dict[str, Any]:
    """The run in a run file's form; source: the model's folder or name."""
    model: dict[str, Any] = {"name": source, "dtype": "float32", "gradient_checkpointing": combination.checkpointing}
    return {
        "model": model | ({"lora": {"rank": 16}} if combination.lora else {}),
        "task": "sums",  # stands in: the prompts of the scenario are used
        "algorithm": dict(combination.algorithm),
        "steps": 10_000,
        "prompts": {"per_step": GROUPS[combination.model], "shuffle": False},
        "sampling": {"group_size": SAMPLES, "max_tokens": combination.most},
        "optimizer": {"learning_rate": 1e-6, "micro_batch_tokens": combination.micro_batch_tokens},
        "checkpoint": {"every": 0},
        "evaluation": {"every": 0},
    }
