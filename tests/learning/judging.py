"""Models that judge sums, trained from a policy that knows them, and how often they are right on rows never seen."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pairs import HELD_OUT, TRAINED_ON
from sums_runs import SUMS

import groupwise
from groupwise.telemetry.display import Silent
from groupwise.telemetry.metrics import read
from groupwise.training.exporting import export_run


def answers() -> list[dict[str, Any]]:
    """Two answers to each sum, each on a line of its own and right or wrong by a coin, sixteen times."""
    draw = random.Random(0)
    rows = []
    for row in SUMS:
        for number in range(16):
            labels = [draw.randrange(2) for _ in range(2)]
            wrong = [digit for digit in "0123456" if digit != row["answer"]]
            steps = [row["answer"] if label else draw.choice(wrong) for label in labels]
            rows.append({"id": f"{row['id']}/{number}", "prompt": row["prompt"], "steps": steps, "labels": labels})
    return rows


STEPS = answers()
DATA: dict[str, tuple[list[Any], list[Any], str, float]] = {
    "reward_model": (TRAINED_ON, HELD_OUT, "pair_accuracy", 0.9),
    "process_reward_model": ([row for row in STEPS if row not in STEPS[::4]], STEPS[::4], "step_accuracy", 0.8),
}
"""Rows to train on, rows to test on, the metric that must rise from one half, and above what."""


def policy_that_knows_sums(folder: Path) -> Path:
    """Train it; a Hugging Face folder."""
    run = {
        "model": {"name": "builtin:tiny-char", "dtype": "float32"},
        "algorithm": "sft",
        "steps": 40,
        "prompts": {"per_step": 16},
        "optimizer": {"learning_rate": 1e-3},
    }
    trained = groupwise.train(run, prompts=SUMS, out=folder / "run", display=Silent()).folder
    export_run(trained, folder / "model", "last")
    return folder / "model"


def accuracies(name: str, policy: Path, out: Path) -> tuple[float, float]:
    """Accuracy on held-out rows, before and after."""
    rows, test, metric, _ = DATA[name]
    run = {
        "model": {"name": str(policy), "dtype": "float32"},
        "algorithm": name,
        "steps": 40,
        "prompts": {"per_step": 24},
        "critic": {"learning_rate": 3e-4},
    }
    folder = groupwise.train(run, prompts=rows, test_prompts=test, out=out, display=Silent()).folder
    found = [row["eval"]["held_out"][metric] for row in read(folder / "metrics.jsonl") if "eval" in row]
    return found[0], found[-1]
