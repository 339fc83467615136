"""What a run changed, read from its folder: the table at the end, and the same numbers for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as parquet

from groupwise.statistics.paired import paired
from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.run_folder import RunFolder


@dataclass(frozen=True)
class Change:
    """One number before and after."""

    name: str
    before: float | None
    after: float | None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    """95 % interval of the difference."""


@dataclass(frozen=True)
class Summary:
    """What a run changed."""

    changes: tuple[Change, ...]
    steps: int
    cpu_seconds: float
    wall_seconds: float
    tokens_sampled: int


def summarise(folder: RunFolder) -> Summary | None:
    """None for a run without any step. Training: first and last quarter of the last stage's steps."""
    rows = metrics.read(folder.metrics)
    steps = [row for row in rows if "eval" not in row]
    if not steps:
        return None
    stage = steps[-1]["stage"]
    last_stage = [row for row in steps if row["stage"] == stage]
    rollouts = [row for row in last_stage if row["completion_length_mean"] is not None]  # null in later updates
    rollouts = rollouts or last_stage
    quarter = max(1, len(rollouts) // 4)
    first, last = rollouts[:quarter], rollouts[-quarter:]
    changes = [
        _between("training reward", first, last, "reward_mean"),
        _between("training pairs in order", first, last, "pair_accuracy"),
        _between("training steps judged right", first, last, "step_accuracy"),
        *_evaluations(folder, [row for row in rows if "eval" in row]),
        *_held_out(
            [row["eval"]["held_out"] for row in rows if row["stage"] == stage and "held_out" in row.get("eval", {})]
        ),
        _between("completion tokens", first, last, "completion_length_mean"),
        _between("groups without signal", first, last, "frac_degenerate_groups"),
        *_not_scored("not scored", rollouts, quarter, "frac_not_scored"),
        *_not_scored("test completions not scored", [row["eval"] for row in rows if "eval" in row], 1, "not_scored"),
    ]
    return Summary(
        tuple(change for change in changes if change.before is not None or change.after is not None),
        steps[-1]["step"],
        sum(row["cpu_seconds"] for row in steps),
        sum(sum(row["seconds"].values()) for row in steps),
        sum(row["tokens_sampled"] for row in steps),
    )


def _between(name: str, first: Sequence[Mapping[str, Any]], last: Sequence[Mapping[str, Any]], key: str) -> Change:
    before, after = _mean([row.get(key) for row in first]), _mean([row.get(key) for row in last])
    return Change(name, before, after, None if before is None or after is None else after - before)


def _not_scored(name: str, rows: Sequence[Mapping[str, Any]], count: int, key: str) -> list[Change]:
    """The share of completions without a score, over the first and last `count` rows; nothing where all had one."""
    return [_between(name, rows[:count], rows[-count:], key)] if any(row.get(key) for row in rows) else []


def _evaluations(folder: RunFolder, rows: Sequence[Mapping[str, Any]]) -> list[Change]:
    """First against last evaluation, their difference paired by prompt; the interval treats prompts as independent."""
    if len(rows) < 2:
        return []
    before, after = (_by_prompt(folder, row["step"]) for row in (rows[0], rows[-1]))
    found = paired(before, after)
    change = Change(
        "test reward",
        rows[0]["eval"]["reward"],
        rows[-1]["eval"]["reward"],
        None if found is None else found.difference,
        None if found is None else found.interval,
    )
    names = rows[0]["eval"]["reward_parts"]
    parts = [
        Change(f"  {name}", rows[0]["eval"]["reward_parts"][name], rows[-1]["eval"]["reward_parts"].get(name))
        for name in names
        if len(names) > 1
    ]
    return [change, *parts]


def _held_out(found: Sequence[Mapping[str, Any]]) -> list[Change]:
    """Loss and accuracies on held-out rows, from the first evaluation of the stage to the last."""
    if not found:
        return []
    names = [name for name in found[0] if name == "loss" or name.endswith("accuracy")]
    return [_between(f"held-out {name.replace('_', ' ')}", found[:1], found[-1:], name) for name in names]


def _by_prompt(folder: RunFolder, step: int) -> dict[str, float]:
    """Mean reward of each evaluated prompt."""
    path = ledger.file_of(folder.evaluations, step)
    if not path.is_file():
        return {}
    rewards: dict[str, list[float]] = {}
    for row in parquet.read_table(path, columns=["prompt_id", "reward"]).to_pylist():
        if row["reward"] is not None:
            rewards.setdefault(row["prompt_id"], []).append(row["reward"])
    return {prompt: sum(values) / len(values) for prompt, values in rewards.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
