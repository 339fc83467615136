"""Runs that should teach a tiny model the sums of numbers below 4, one stage each, and what they gained.

All begin with the same model: a little SFT has taught it to answer with a digit and stop, and a few of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import groupwise
from groupwise.telemetry.display import Silent
from groupwise.telemetry.metrics import read

SUMS = [
    {"id": f"{a}+{b}", "prompt": f"{a}+{b}=", "answer": str(a + b), "completion": str(a + b)}
    for a in range(4)
    for b in range(4)
]
COMMON: dict[str, Any] = {
    "prompts": {"per_step": 16},
    "sampling": {"group_size": 8, "max_tokens": 4},
    "rewards": [{"name": "exact"}],
    "evaluation": {"prompts": 16, "samples": 16},
}
START: dict[str, Any] = {
    **COMMON,
    "model": {"name": "builtin:tiny-char", "dtype": "float32"},
    "algorithm": "sft",
    "steps": 4,
    "optimizer": {"learning_rate": 1e-3},
}


@dataclass(frozen=True)
class Recipe:
    """What an algorithm needs to learn the sums quickly."""

    learning_rate: float = 6e-4
    steps: int = 15
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the algorithm."""
    stage: Mapping[str, Any] = field(default_factory=dict)
    """Other tables of its stage."""
    before: tuple[Mapping[str, Any], ...] = ()
    """Stages that come first."""


CRITIC = {"learning_rate": 2e-3}
VALUES: dict[str, Any] = {"algorithm": "value_pretraining", "steps": 20, "critic": CRITIC}
"""The stage before algorithms that need to know what completions return."""

RECIPES: dict[str, Recipe] = {
    "sft": Recipe(),
    "rft": Recipe(stage={"sampling": {"group_size": 32, "max_tokens": 4}}),
    "online_rft": Recipe(),
    "ppo": Recipe(stage={"critic": CRITIC}),
    "grpo": Recipe(),
    "dr_grpo": Recipe(),
    "dapo": Recipe(settings={"dynamic_sampling": {"max_rounds": 2}}),
    "gspo": Recipe(),
    "gspo_token": Recipe(),
    "vc_ppo": Recipe(stage={"critic": CRITIC}, before=(VALUES,)),
    "vapo": Recipe(steps=30, stage={"critic": CRITIC}, before=(VALUES,)),
    "rloo": Recipe(),
    "reinforce_pp": Recipe(),
    "reinforce_pp_baseline": Recipe(),
    "cispo": Recipe(),
    "gmpo": Recipe(),
    "sapo": Recipe(),
}
"""Every algorithm that is judged by sampled accuracy."""


def start_model(folder: Path) -> Path:
    """Train the model that all runs begin with; a Hugging Face folder."""
    from groupwise.training.exporting import export_run

    run = groupwise.train(START, prompts=SUMS, test_prompts=SUMS, out=folder / "run", display=Silent()).folder
    export_run(run, folder / "model", "last")
    return folder / "model"


def run_of(name: str, start: Path) -> dict[str, Any]:
    """The run of an algorithm from the start model."""
    recipe = RECIPES[name]
    stage = {
        "algorithm": {"name": name, **recipe.settings},
        "steps": recipe.steps,
        "optimizer": {"learning_rate": recipe.learning_rate},
        **recipe.stage,
    }
    return {**COMMON, "model": {"name": str(start), "dtype": "float32"}, "stages": [*recipe.before, stage]}


def accuracies(name: str, start: Path, out: Path) -> tuple[float, float]:
    """Sampled accuracy on all sums, before and after."""
    run = run_of(name, start)
    folder = groupwise.train(run, prompts=SUMS, test_prompts=SUMS, out=out, display=Silent()).folder
    rewards = [row["eval"]["reward"] for row in read(folder / "metrics.jsonl") if "eval" in row]
    return rewards[0], rewards[-1]


def explained_variances(start: Path, out: Path) -> list[float]:
    """The share of the returns' variance that the critic explains, at each step of value pretraining."""
    run = {
        **COMMON,
        **VALUES,
        "model": {"name": str(start), "dtype": "float32"},
        "algorithm": {"name": "value_pretraining", "explained_variance": 1.0},
        "steps": 20,
        "evaluation": {"prompts": 0},
    }
    folder = groupwise.train(run, prompts=SUMS, out=out, display=Silent()).folder
    return [row["explained_variance"] for row in read(folder / "metrics.jsonl")]
