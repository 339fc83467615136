"""The ledger: every sampled completion, one Parquet file per step, one row per completion."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from groupwise.types import Completion, Group, Prompt, Score, Segment

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("stage", pa.string()),  # INDEX-ALGORITHM
        ("group_id", pa.string()),  # prompt id and visit
        ("prompt_id", pa.string()),
        ("visit", pa.int64()),
        ("sample", pa.int64()),  # 0-based index in the group
        ("prompt", pa.string()),  # as rendered
        ("prompt_token_ids", pa.list_(pa.int32())),
        ("columns", pa.string()),  # the row's other columns, as JSON
        ("completion", pa.string()),  # special tokens shown
        ("token_ids", pa.list_(pa.int32())),
        ("token_texts", pa.list_(pa.string())),  # joined they are the completion; null where it can't be cut at tokens
        ("sampler_log_probs", pa.list_(pa.float32())),
        ("finish_reason", pa.string()),  # stop, length or aborted
        ("policy_version", pa.int64()),  # optimiser steps taken by the policy that drew it
        ("reward", pa.float64()),  # null: not scored
        ("correct", pa.bool_()),
        ("reason", pa.string()),
        ("parts", pa.string()),  # named reward components, as JSON
        ("step_rewards", pa.list_(pa.float64())),  # one per reasoning step; null: the reward gives none
        ("step_ends", pa.list_(pa.int32())),  # 0-based index of the last token of each step
        ("advantages", pa.list_(pa.float32())),  # per token; null where dropped, or not trained on
        ("coefficients", pa.list_(pa.float32())),  # per token, of the first update; null where dropped, or no update
        ("kept", pa.bool_()),
        ("dropped_because", pa.string()),
    ]
)


def file_of(folder: Path, step: int) -> Path:
    """The file of one step: six digits, so that names sort as steps do."""
    return folder / f"step-{step:06d}.parquet"


PerToken = Mapping[str, Sequence[Sequence[float] | np.ndarray | None]]
"""Numbers per token: group id -> one sequence for each completion, None for one that is not trained on."""


def write(
    path: Path,
    step: int,
    stage: str,
    groups: Sequence[Group],
    texts: Sequence[Sequence[str]],
    advantages: PerToken,
    dropped: Mapping[str, str],
    coefficients: PerToken | None = None,
    token_texts: Sequence[Sequence[Sequence[str] | None]] | None = None,
) -> None:
    """Write one file, complete or not at all, also where the machine loses its power.

    texts, token_texts: the decoded completions, per group, and their tokens'; advantages, coefficients: of the groups
    that are kept; dropped: why a group was dropped, by its id.
    """
    rows = [
        _row(step, stage, group, sample, text)
        | {
            "token_texts": None if token_texts is None else token_texts[number][sample],
            "advantages": _of(advantages, group, sample),
            "coefficients": _of(coefficients or {}, group, sample),
            "kept": group.id not in dropped,
            "dropped_because": dropped.get(group.id),
        }
        for number, (group, group_texts) in enumerate(zip(groups, texts, strict=True))
        for sample, text in enumerate(group_texts)
    ]
    aside = path.with_name(f".{path.name}.new")
    parquet.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), aside, compression="zstd")
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)


def _of(values: PerToken, group: Group, sample: int) -> Sequence[float] | np.ndarray | None:
    """The numbers of one completion."""
    found = values.get(group.id)
    return None if found is None else found[sample]


def drop_after(folder: Path, step: int) -> None:
    """Forget the files of later steps, and the beginnings of files that a crash left: they are about to be written
    again."""
    for later, path in files(folder).items():
        if later > step:
            path.unlink()
    for path in folder.glob(".step-*.parquet.new"):
        path.unlink()


def files(folder: Path) -> dict[int, Path]:
    """The complete files of a folder by step, in order."""
    found = [(re.fullmatch(r"step-(\d+)\.parquet", path.name), path) for path in folder.glob("step-*.parquet")]
    return dict(sorted((int(match[1]), path) for match, path in found if match))


class Cap:
    """Keeps the files of a folder under a size by dropping the oldest; the newest stays, however large.

    `dropped`: how many have gone already, for a run that goes on.
    """

    def __init__(self, folder: Path, max_mb: int, dropped: int = 0) -> None:
        self.limit, self.dropped = max_mb * 1_000_000, dropped
        self._files = {step: (path, path.stat().st_size) for step, path in files(folder).items()}
        self._total = sum(size for _, size in self._files.values())

    def added(self, step: int, path: Path) -> None:
        """The file of a step, later than all others, was written."""
        size = path.stat().st_size
        self._files[step] = (path, size)
        self._total += size
        while self._total > self.limit and len(self._files) > 1:
            oldest, size = self._files.pop(next(iter(self._files)))
            oldest.unlink(missing_ok=True)  # a person may have taken it away
            self._total -= size
            self.dropped += 1


def _row(step: int, stage: str, group: Group, sample: int, text: str) -> dict[str, Any]:
    """What is known of a completion before anything is trained on it."""
    completion: Completion = group.completions[sample]
    score: Score | None = group.scores[sample]
    log_probs = [segment.sampler_log_probs for segment in completion.segments]
    drawn = [value for part in log_probs if part is not None for value in part]
    return {
        "step": step,
        "stage": stage,
        "group_id": group.id,
        "prompt_id": group.prompt.id,
        "visit": completion.key.visit if completion.key else _visit(group),
        "sample": sample,
        "prompt": group.prompt.text,
        "prompt_token_ids": list(group.prompt.token_ids),
        "columns": json.dumps(dict(group.prompt.columns), default=str),
        "completion": text,
        "token_ids": list(completion.token_ids),
        "sampler_log_probs": drawn if len(drawn) == len(completion.token_ids) else None,
        "finish_reason": completion.finish_reason,
        "policy_version": completion.segments[-1].version,
        "reward": None if score is None else score.value,
        "correct": None if score is None else score.correct,
        "reason": "" if score is None else score.reason,
        "parts": json.dumps({} if score is None else dict(score.parts)),
        "step_rewards": None if score is None or score.step_rewards is None else list(score.step_rewards),
        "step_ends": None if score is None or score.step_ends is None else list(score.step_ends),
    }


def _visit(group: Group) -> int:
    """From the group's id, `PROMPT#VISIT`, or `PROMPT#VISIT/PAIR` for a pair made of its completions."""
    return int(group.id.rpartition("#")[2].partition("/")[0] or 0)


def read_groups(path: Path) -> list[Group]:
    """The groups of a file, as they were written, without the texts that were made of them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in parquet.read_table(path).to_pylist():
        groups.setdefault(row["group_id"], []).append(row)
    return [_group(group_id, rows) for group_id, rows in groups.items()]


def _group(group_id: str, rows: Sequence[Mapping[str, Any]]) -> Group:
    first = rows[0]
    prompt = Prompt(
        first["prompt_id"], tuple(first["prompt_token_ids"]), first["prompt"], None, json.loads(first["columns"])
    )
    completions, scores = [], []
    for row in rows:
        drawn = row["sampler_log_probs"]
        segment = Segment(
            tuple(row["token_ids"]), None if drawn is None else tuple(drawn), version=row["policy_version"]
        )
        completions.append(Completion((segment,), row["finish_reason"]))
        steps = (_steps(row, "step_rewards"), _steps(row, "step_ends"))
        scores.append(Score(row["reward"], row["correct"], row["reason"], json.loads(row["parts"]), *steps))
    return Group(group_id, prompt, tuple(completions), tuple(scores))


def _steps(row: Mapping[str, Any], column: str) -> tuple[Any, ...] | None:
    """Files that were written before there were steps in them lack the column."""
    values = row.get(column)
    return None if values is None else tuple(values)
