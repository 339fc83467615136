"""What a run changed, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.summary import Summary, summarise
from groupwise.types import Completion, Group, Prompt, Score, Segment


def step(number: int, reward: float | None, stage: str = "1-grpo") -> dict[str, Any]:
    return {
        "step": number, "stage": stage, "reward_mean": reward, "completion_length_mean": float(number),
        "frac_degenerate_groups": 0.5, "cpu_seconds": 2.0, "tokens_sampled": 10,
        "seconds": {"rollout": 1.0, "reward": 0.0, "update": 0.5, "other": 0.0},
    }  # fmt: skip


def evaluation(folder: RunFolder, number: int, rewards: list[list[float | None]]) -> None:
    groups = [
        Group(
            f"p{index}#0",
            Prompt(f"p{index}", (1,), "p"),
            tuple(Completion((Segment((1,), None),), "stop") for _ in values),
            tuple(Score(value) for value in values),
        )
        for index, values in enumerate(rewards)
    ]
    texts = [["x"] * len(values) for values in rewards]
    ledger.write(ledger.file_of(folder.evaluations, number), number, "1-grpo", groups, texts, {}, {})
    mean = metrics.score_metrics(groups)["reward_mean"]
    metrics.append(
        folder.metrics, {"step": number, "stage": "1-grpo", "eval": {"reward": mean, "reward_parts": {"exact": mean}}}
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.check_free(tmp_path / "run")
    made.make("", {})
    return made


def change(summary: Summary | None, start: str) -> Any:
    assert summary is not None
    return next(found for found in summary.changes if found.name.startswith(start))


def test_a_run_without_steps_has_no_summary(folder: RunFolder) -> None:
    assert summarise(folder) is None
    evaluation(folder, 0, [[1.0]])
    assert summarise(folder) is None


def test_quarters_are_those_of_the_last_stage(folder: RunFolder) -> None:
    metrics.append(folder.metrics, step(1, None, "0-sft"))
    for number in range(2, 10):
        metrics.append(folder.metrics, step(number, number / 10))
    summary = summarise(folder)
    assert summary is not None
    reward = change(summary, "training reward")
    assert (reward.before, reward.after) == (pytest.approx(0.25), pytest.approx(0.85))
    assert reward.difference == pytest.approx(0.6)
    assert (summary.steps, summary.tokens_sampled) == (9, 90)
    assert (summary.cpu_seconds, summary.wall_seconds) == (18.0, 13.5)


def test_evaluations_are_compared_prompt_by_prompt(folder: RunFolder) -> None:
    evaluation(folder, 0, [[0.0, 0.0], [1.0, 0.0], [0.0, None]])
    metrics.append(folder.metrics, step(1, 0.5))
    evaluation(folder, 1, [[1.0, 0.0], [1.0, 1.0], [0.5, None]])
    test = change(summarise(folder), "test reward")
    assert test.before == pytest.approx(0.2) and test.after == pytest.approx(0.7)
    assert test.difference == pytest.approx(0.5)
    assert test.interval == pytest.approx((0.5, 0.5))  # every prompt gained the same
    (folder.evaluations / "step-000001.parquet").unlink()
    evaluation(folder, 1, [[0.0, 0.0], [1.0, 1.0], [1.0, None]])
    test = change(summarise(folder), "test reward")
    half = 4.3027 * math.sqrt(0.25 / 3)  # Student, two degrees of freedom
    assert test.interval == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)


def test_later_updates_of_a_rollout_are_not_taken_for_rollouts_without_reward(folder: RunFolder) -> None:
    for number, reward in ((1, 0.25), (2, None), (3, 0.75), (4, None)):
        later = {} if reward is not None else {"completion_length_mean": None, "frac_degenerate_groups": None}
        metrics.append(folder.metrics, step(number, reward) | later)
    found = summarise(folder)
    assert found is not None
    change = found.changes[0]
    assert (change.name, change.before, change.after) == ("training reward", 0.25, 0.75)


def test_completions_that_could_not_be_scored_have_a_row_where_there_were_any(folder: RunFolder) -> None:
    for number in range(1, 9):
        metrics.append(folder.metrics, step(number, 0.5) | {"frac_not_scored": 0.0})
    found = summarise(folder)
    assert found is not None and not any("not scored" in change.name for change in found.changes)
    for number, share in ((9, 0.0), (10, 0.25), (11, 0.5), (12, 1.0)):
        metrics.append(folder.metrics, step(number, 0.5) | {"frac_not_scored": share})
    row = change(summarise(folder), "not scored")
    assert (row.before, row.after, row.difference) == (0.0, pytest.approx(1.75 / 3), pytest.approx(1.75 / 3))
    for number, share in ((0, 0.5), (12, 0.125)):
        result = {"reward": 0.5, "reward_parts": {}, "not_scored": share}
        metrics.append(folder.metrics, {"step": number, "stage": "1-grpo", "eval": result})
    row = change(summarise(folder), "test completions not scored")
    assert (row.before, row.after, row.difference) == (0.5, 0.125, -0.375)
