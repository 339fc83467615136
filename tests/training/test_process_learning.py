"""A model learns worked sums from rewards of their steps, given by a verifier; and not where the rewards are moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Silent, evaluation_rows, rollouts

import groupwise
from groupwise.algorithms.grpo import GRPO
from groupwise.models.tiny_char import vocabulary
from groupwise.tasks import WorkedSums

TASK = WorkedSums(largest=3)
ROWS = TASK.rows("train", 0)
SFT_STEPS, STEPS = 30, 75
BAR = 0.2
"""The least gain in sampled accuracy."""


def run_of(steps: int) -> dict[str, Any]:
    return {
        "model": {"name": "builtin:tiny-char", "dtype": "float32"},
        "rewards": [TASK.reward()],
        "prompts": {"per_step": 16},
        "sampling": {"group_size": 8, "max_tokens": 8},
        "evaluation": {"prompts": len(ROWS), "samples": 8},
        "stages": [
            {"algorithm": "sft", "steps": SFT_STEPS, "optimizer": {"learning_rate": 1e-3}},
            {
                "algorithm": {"name": "grpo", "supervision": "process", "beta": 0.0},
                "steps": steps,
                "optimizer": {"learning_rate": 3e-4, "warmup_steps": 3},
            },
        ],
    }


def gain(out: Path) -> float:
    """Accuracy that process supervision added to that of SFT."""
    run = run_of(STEPS - SFT_STEPS)
    folder = groupwise.train(run, prompts=ROWS, test_prompts=ROWS, out=out, display=Silent()).folder
    accuracy = {row["step"]: row["eval"]["correct"] for row in evaluation_rows(folder)}
    assert 0.05 < accuracy[SFT_STEPS] < 0.7  # there was something to learn, and something to learn it from
    return accuracy[STEPS] - accuracy[SFT_STEPS]


@pytest.mark.slow
@pytest.mark.learning
def test_grpo_learns_worked_sums_from_rewards_of_steps(tmp_path: Path) -> None:
    assert gain(tmp_path / "run") >= BAR


@pytest.mark.slow
@pytest.mark.learning
def test_the_bar_is_missed_where_the_sign_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = GRPO.credit

    def credit(self: GRPO, *arguments: Any) -> Any:
        batch = plain(self, *arguments)
        return replace(batch, advantages=-batch.advantages)

    monkeypatch.setattr(GRPO, "credit", credit)
    assert gain(tmp_path / "run") < 0


def test_R096_steps_of_one_completion_have_advantages_of_their_own(tmp_path: Path) -> None:
    """From sampled ids through a worker process to the ledger: advantages change after a step's last token only."""
    run = run_of(2)
    run["stages"][0]["steps"] = 12
    run["evaluation"] = {"prompts": 0}
    folder = groupwise.train(run, prompts=ROWS, out=tmp_path / "run", display=Silent()).folder
    changed = 0
    for row in rollouts(folder):
        if row["stage"] != "1-grpo" or row["advantages"] is None:
            continue
        assert len(row["advantages"]) == len(row["token_ids"])
        for place, (here, after) in enumerate(zip(row["advantages"], row["advantages"][1:], strict=False)):
            if here != after:
                changed += 1
                assert row["token_ids"][place] == vocabulary()["="]
    assert changed > 20
