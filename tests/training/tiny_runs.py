"""Runs of seconds, shared by the tests of training: the smallest built-in model, a few rows, rewards made of text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from groupwise.telemetry.display import Silent

ROWS = [{"id": f"row-{n}", "prompt": f"{n}+{n}=", "answer": str(2 * n)} for n in range(10)]

TIMES = ("seconds", "cpu_seconds", "ledger_seconds", "peak_rss_mb")
"""Metrics that say how long and how much, and so differ between two equal runs."""

BASE: dict[str, Any] = {
    "steps": 2,
    "model": {"name": "builtin:tiny-char", "dtype": "float32"},
    "algorithm": {"name": "grpo", "beta": 0.0},
    "prompts": {"per_step": 2},
    "sampling": {"group_size": 4, "max_tokens": 4},
    "optimizer": {"learning_rate": 1e-3},
    "evaluation": {"prompts": 0},
}


def tiny(**changes: Any) -> dict[str, Any]:
    """A run in a run file's form: `BASE` with these tables laid over it."""
    return {
        **BASE,
        **{key: {**BASE.get(key, {}), **value} if isinstance(value, dict) else value for key, value in changes.items()},
    }


def coin() -> Callable[[Any], bool]:
    """A reward that about half of all random completions get: groups of four nearly always have a signal."""
    return lambda record: sum(map(ord, record.clean_text)) % 2 == 0


def always(value: float | None) -> Callable[[Any], float | None]:
    """A reward that tells nothing apart."""
    return lambda record: value


class Lines(Silent):
    """A display that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def metric_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of optimiser steps."""
    return [row for row in all_rows(folder) if "eval" not in row]


def evaluation_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of evaluations."""
    return [row for row in all_rows(folder) if "eval" in row]


def all_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def rollouts(folder: Path, kind: str = "rollouts") -> list[dict[str, Any]]:
    """All rows of the ledger, in order."""
    return [
        row for path in sorted((folder / kind).glob("step-*.parquet")) for row in parquet.read_table(path).to_pylist()
    ]


def weights(folder: Path, step: int) -> str:
    """The digest of a checkpoint's weights."""
    return hashlib.sha256((folder / f"checkpoints/step-{step}/model.safetensors").read_bytes()).hexdigest()


def outcome(folder: Path, last_step: int) -> dict[str, Any]:
    """Everything that two equal runs have in common, bit for bit."""
    rows = [timeless(row) for row in all_rows(folder)]
    return {
        "metrics": rows,
        "rollouts": rollouts(folder),
        "evaluations": rollouts(folder, "evaluations"),
        "weights": weights(folder, last_step),
    }


def timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    """A metrics row without times."""
    kept = {key: value for key, value in row.items() if key not in TIMES}
    if "eval" in kept:
        kept["eval"] = {key: value for key, value in kept["eval"].items() if key != "seconds"}
    return kept


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Assert that two outcomes are equal, and say where the first difference is."""
    for part in ("metrics", "rollouts", "evaluations"):
        assert len(one[part]) == len(other[part]), f"{part}: {len(one[part])} rows and {len(other[part])}"
        for number, (left, right) in enumerate(zip(one[part], other[part], strict=True)):
            assert left == right, f"{part}, row {number}"
    assert one["weights"] == other["weights"], "the final weights differ"
