"""The optimiser's schedule and what its settings do, seen through whole runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tiny_runs import ROWS, Lines, coin, metric_rows, tiny, weights

import groupwise
from groupwise.models.builtin import builtin_folder


def train(out: Path, **optimizer: Any) -> Path:
    run = tiny(steps=4, optimizer=optimizer)
    return groupwise.train(run, prompts=ROWS, rewards=[coin()], out=out, display=Lines()).folder


@pytest.mark.parametrize(
    ("schedule", "warmup", "factors"),
    [
        ("constant", 0, [1, 1, 1, 1]),
        ("constant", 2, [0.5, 1, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("linear", 2, [0.5, 1, 1, 0.5]),
        ("cosine", 0, [1, 0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4]),
    ],
)
def test_the_rate_warms_up_and_follows_its_schedule(
    tmp_path: Path, schedule: str, warmup: int, factors: list[float]
) -> None:
    folder = train(tmp_path / "run", learning_rate=0.01, schedule=schedule, warmup_steps=warmup)
    rates = [row["learning_rate"] for row in metric_rows(folder)]
    assert rates == pytest.approx([0.01 * factor for factor in factors])


def test_the_rate_recorded_is_the_rate_taken(tmp_path: Path) -> None:
    """A first step of Adam moves a weight by about the rate."""
    before = load_file(builtin_folder("tiny-char") / "model.safetensors")
    run = tiny(steps=1, optimizer={"learning_rate": 0.01, "warmup_steps": 4})
    folder = groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    after = load_file(folder / "checkpoints/step-1/model.safetensors")
    moved = max(float((after[name] - before[name]).abs().max()) for name in before)
    assert moved == pytest.approx(0.0025, rel=0.01)
    assert metric_rows(folder)[0]["learning_rate"] == 0.0025


def test_weight_decay_pulls_on_matrices_alone(tmp_path: Path) -> None:
    """With a rate too small for the gradient to show, what moves is what decays."""
    rate, decay = 1e-6, 1e4
    before = load_file(builtin_folder("tiny-char") / "model.safetensors")
    run = tiny(steps=1, optimizer={"learning_rate": rate, "weight_decay": decay})
    folder = groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    after = load_file(folder / "checkpoints/step-1/model.safetensors")
    for name, old in before.items():
        factor = 1 - rate * decay if old.ndim > 1 else 1.0
        assert (after[name] - factor * old).abs().max() <= 2 * rate, name


@pytest.mark.parametrize(
    "setting", [{"eps": 1e-2}, {"betas": [0.5, 0.6]}, {"max_grad_norm": 1e-9}, {"weight_decay": 1.0}]
)
def test_every_setting_of_the_optimiser_changes_what_is_learnt(tmp_path: Path, setting: dict[str, Any]) -> None:
    plain = train(tmp_path / "plain", learning_rate=1e-3)
    changed = train(tmp_path / "changed", learning_rate=1e-3, **setting)
    assert weights(plain, 4) != weights(changed, 4)
    assert metric_rows(plain)[0]["grad_norm"] == metric_rows(changed)[0]["grad_norm"]  # measured before clipping
