"""Metrics: rows that survive a crash, and numbers computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from groupwise.telemetry import metrics
from groupwise.types import Completion, Group, Maximum, Mean, Prompt, Score, Segment


def group(values: list[float | None], lengths: list[int] | None = None, reasons: list[str] | None = None) -> Group:
    lengths, reasons = lengths or [1] * len(values), reasons or ["stop"] * len(values)
    completions = tuple(
        Completion((Segment(tuple(range(length)), None),), reason)  # type: ignore[arg-type]
        for length, reason in zip(lengths, reasons, strict=True)
    )
    scores = tuple(Score(value, None if value is None else value > 0.5, parts={"a": value}) for value in values)
    return Group("g", Prompt("p", (1,), "p"), completions, scores)


def test_rows_are_written_whole_and_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics.append(path, {"step": 1, "loss": math.nan, "seconds": {"update": math.inf}, "list": [1.5, -math.inf]})
    metrics.append(path, {"step": 2, "loss": 0.1})
    text = path.read_text()
    assert json.loads(text.splitlines()[0]) == {
        "step": 1,
        "loss": None,
        "seconds": {"update": None},
        "list": [1.5, None],
    }
    assert "NaN" not in text and "Infinity" not in text and text.endswith("\n")
    assert [row["step"] for row in metrics.read(path)] == [1, 2]


def test_a_row_torn_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert metrics.read(path) == []
    metrics.append(path, {"step": 1})
    with path.open("a") as file:
        file.write('{"step": 2}')  # whole, but perhaps not flushed to its end
    assert metrics.read(path) == [{"step": 1}]


def test_later_rows_are_dropped_evaluations_included(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": 0, "eval": {}}, {"step": 1}, {"step": 1, "eval": {}}, {"step": 2}, {"step": 2, "eval": {}}]
    for row in rows:
        metrics.append(path, row)
    with path.open("a") as file:
        file.write('{"st')
    metrics.drop_after(path, 1)
    assert path.read_text() == "".join(json.dumps(row) + "\n" for row in rows[:3])


@pytest.mark.parametrize(
    ("rewards", "best"),
    [
        ({0: 0.9, 3: 0.1, 6: 0.5, 7: 0.4}, 6),
        ({0: 0.9, 3: 0.5, 6: 0.5}, 3),
        ({0: 0.9}, None),
        ({0: 0.9, 3: None, 6: 0.0}, 6),
        ({0: 0.9, 3: None}, None),
        ({}, None),
    ],
)
def test_R102_the_best_step_is_that_of_the_highest_evaluation_after_training_began(rewards, best) -> None:
    rows = [{"step": step, "eval": {"reward": reward}} for step, reward in rewards.items()]
    assert metrics.best_step([{"step": 9, "reward_mean": 1.0}, *rows]) == best


def test_parts_of_a_step_add_up_as_the_whole() -> None:
    merged = metrics.merged(
        [
            {"mean": Mean(3.0, 2), "most": Maximum(1.0), "none": Mean(0.0, 0)},
            {"mean": Mean(1.0, 6), "most": Maximum(4.0)},
            {"late": Mean(1.0, 4)},
        ]
    )
    assert merged == {"mean": 0.5, "most": 4.0, "none": None, "late": 0.25}


def test_score_metrics_leave_out_what_was_not_scored() -> None:
    result = metrics.score_metrics([group([1.0, 0.0, None]), group([1.0])])
    assert result["reward_mean"] == pytest.approx(2 / 3)
    assert result["reward_std"] == pytest.approx(math.sqrt(2 / 9))
    assert result["correct_mean"] == pytest.approx(2 / 3)
    assert result["frac_not_scored"] == 0.25
    assert result["reward_parts"] == {"a": pytest.approx(2 / 3)}
    nothing = metrics.score_metrics([group([None])])
    assert nothing["reward_mean"] is None and nothing["reward_std"] is None and nothing["frac_not_scored"] == 1


def test_completion_metrics() -> None:
    result = metrics.completion_metrics(
        [group([0.0, 0.0], [4, 8], ["stop", "length"]), group([1.0, 1.0], [2, 2], ["stop", "aborted"])]
    )
    assert result == {"completion_length_mean": 4.0, "frac_truncated": 0.25, "repetition_mean": 0.0}
    assert set(metrics.completion_metrics([]).values()) == {None}


@pytest.mark.parametrize(
    ("ids", "share"),
    [
        ([7] * 10, 6 / 7),  # seven pieces, all alike
        ([1, 2, 3, 4, 1, 2, 3, 4], 1 / 5),  # 1234 2341 3412 4123 1234
        ([1, 2, 3, 4, 5, 6], 0.0),
        ([1, 1, 1, 1], 0.0),  # one piece can't be a repeat
        ([], 0.0),
    ],
)
def test_repetition_counts_pieces_of_four_tokens_that_stood_there_before(ids: list[int], share: float) -> None:
    assert metrics.repetition(ids) == pytest.approx(share)


def test_length_by_verdict_leaves_out_completions_without_one() -> None:
    result = metrics.score_metrics([group([1.0, 0.0, None, 1.0], [3, 8, 100, 5])])
    assert (result["correct_length_mean"], result["wrong_length_mean"]) == (4.0, 8.0)
    assert metrics.score_metrics([group([1.0])])["wrong_length_mean"] is None


def test_the_interval_is_clustered_by_prompt() -> None:
    """More completions of the same prompts make it no narrower: prompts are the independent draws."""
    few = metrics.clustered_interval([group([1.0]), group([0.0]), group([1.0])])
    many = metrics.clustered_interval([group([1.0] * 50), group([0.0] * 50), group([1.0] * 50)])
    assert few == pytest.approx(many)
    half = 4.3027 * math.sqrt((2 * (1 / 3) ** 2 + (2 / 3) ** 2) / 2 / 3)
    assert few == pytest.approx((2 / 3 - half, 2 / 3 + half), abs=1e-4)
    assert metrics.clustered_interval([group([1.0, 0.0])]) is None
    assert metrics.clustered_interval([group([1.0]), group([None]), group([1.0])]) == pytest.approx((1.0, 1.0))
