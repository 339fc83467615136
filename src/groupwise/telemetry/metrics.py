"""Metrics: one JSON object per optimiser step, flushed as it is written; and the numbers of a rollout."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.errors import RunFolderError
from groupwise.statistics.intervals import mean_interval
from groupwise.telemetry.run_folder import write_atomically
from groupwise.types import Group, Maximum, Mean, Metric, Score, Total

PIECE = 4
"""Tokens of a piece in the measure of repetition: common pairs and triples come again in any good text."""


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row at the end. Numbers that are not finite become null: JSON has no name for them."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(_finite(row)) + "\n")
        file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """All complete rows; a last line torn by a crash is left out. Raises `RunFolderError` for a line that is no row."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [_row(line, path, number) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or "step" not in row:
        raise RunFolderError(f"{path}, line {number} is no row with a step", fix="mend that line, or take it out")
    return row


def drop_after(path: Path, step: int) -> None:
    """Forget what was recorded after a step: it is about to be done again."""
    kept = [row for row in read(path) if row["step"] <= step]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))


def best_step(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Among the rows of a run, the step of the evaluation with the highest reward, the earliest of equals.

    The evaluation before training doesn't count: nothing was trained then.
    """
    scored = [(row["eval"]["reward"], -row["step"]) for row in rows if "eval" in row and row["step"]]
    scored = [pair for pair in scored if pair[0] is not None]
    return -max(scored)[1] if scored else None


def merged(parts: Iterable[Mapping[str, Metric]]) -> dict[str, float | None]:
    """The metrics of a step from those of its micro-batches; a mean over nothing is None."""
    values: dict[str, Metric] = {}
    for part in parts:
        for name, metric in part.items():
            values[name] = _joined(values[name], metric) if name in values else metric
    return {name: _value(metric) for name, metric in values.items()}


def _joined(one: Metric, other: Metric) -> Metric:
    if isinstance(one, Mean):
        assert isinstance(other, Mean)
        return Mean(one.total + other.total, one.count + other.count)
    if isinstance(one, Total):
        assert isinstance(other, Total)
        return Total(one.value + other.value)
    assert isinstance(other, Maximum)
    return Maximum(max(one.value, other.value))


def _value(metric: Metric) -> float | None:
    if isinstance(metric, Mean):
        return metric.total / metric.count if metric.count else None
    return metric.value


def score_metrics(groups: Sequence[Group]) -> dict[str, Any]:
    """`reward_mean, reward_std, reward_parts, correct_mean, frac_not_scored, correct_length_mean, wrong_length_mean`
    over the completions of these groups.

    Completions without a score are left out of every mean, those without a verdict out of the means of verdicts and of
    the tokens of right and of wrong ones; the standard deviation is the population's.
    """
    scores = [score for group in groups for score in group.scores if score is not None]
    values = [score.value for score in scores if score.value is not None]
    mean = _mean(values)
    spread = None if mean is None else math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    correct = [float(score.correct) for score in scores if score.correct is not None]
    return {
        "reward_mean": mean,
        "reward_std": spread,
        "reward_parts": _part_means(scores),
        "correct_mean": _mean(correct),
        "frac_not_scored": _mean([float(score.value is None) for score in scores]),
        "correct_length_mean": _mean(_lengths(groups, correct=True)),
        "wrong_length_mean": _mean(_lengths(groups, correct=False)),
    }


def completion_metrics(groups: Sequence[Group]) -> dict[str, Any]:
    """`completion_length_mean, frac_truncated, repetition_mean` over the completions of these groups."""
    completions = [completion for group in groups for completion in group.completions]
    return {
        "completion_length_mean": _mean([float(len(completion.token_ids)) for completion in completions]),
        "frac_truncated": _mean([float(completion.finish_reason == "length") for completion in completions]),
        "repetition_mean": _mean([repetition(completion.token_ids) for completion in completions]),
    }


def repetition(token_ids: Sequence[int]) -> float:
    """The share of a completion's pieces of `PIECE` tokens that stood there before; 0 where it has not two pieces."""
    pieces = max(len(token_ids) - PIECE + 1, 0)
    if pieces < 2:
        return 0.0
    return 1 - len(set(zip(*(token_ids[start:] for start in range(PIECE)), strict=False))) / pieces


def clustered_interval(groups: Sequence[Group]) -> tuple[float, float] | None:
    """95 % interval of the mean reward, clustered by prompt: prompts are the independent draws, not completions."""
    return mean_interval([mean for group in groups if (mean := group_mean(group)) is not None])


def group_mean(group: Group) -> float | None:
    """Mean reward of a group's scored completions."""
    return _mean([score.value for score in group.scores if score is not None and score.value is not None])


def _lengths(groups: Sequence[Group], *, correct: bool) -> list[float]:
    """Tokens of the completions with this verdict."""
    return [
        float(len(completion.token_ids))
        for group in groups
        for completion, score in zip(group.completions, group.scores, strict=True)
        if score is not None and score.correct is correct
    ]


def _part_means(scores: Sequence[Score]) -> dict[str, float | None]:
    names = dict.fromkeys(name for score in scores for name in score.parts)
    parts = {name: [score.parts.get(name) for score in scores] for name in names}
    return {name: _mean([value for value in values if value is not None]) for name, values in parts.items()}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
