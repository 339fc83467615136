"""Which groups a run recorded, what each is like, and any of them in full: the ledger, read file by file.

The index knows of every group how it ended, not what was written: so it fits in memory for a long run, and the texts
are read when a reader asks for them. A file that was read is read again only where it changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet

from groupwise.errors import RunFolderError
from groupwise.telemetry.run_folder import RunFolder

COLUMNS = (
    "step", "stage", "group_id", "prompt_id", "prompt", "finish_reason", "reward", "correct", "reason", "kept",
    "dropped_because",
)  # fmt: skip
"""What the index reads as it stands."""
LISTS = ("token_ids", "sampler_log_probs")
"""Of these it keeps the length and the mean."""
TITLE = 160
"""Characters of a prompt in a list of groups."""
SHOWN = ("all", "mixed", "surprising", "longest", "not scored", "cut off", "dropped")
"""The choices of groups that `find` knows."""
SURPRISING = 50
"""How many groups count as the most surprising, and as the longest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One group, without its texts."""

    file: Path
    source: str
    """`training` or `evaluation`."""
    step: int
    stage: str
    id: str
    prompt_id: str
    title: str
    """The prompt without the lines that all prompts of its file begin with, in one line."""
    rewards: tuple[float | None, ...]
    correct: tuple[bool | None, ...]
    kept: bool
    scored: bool
    """Whether anything was there to be scored: demonstrations are not."""
    cut_off: bool
    longest: int
    """Tokens of the longest completion."""
    surprise: float
    """How unlike its siblings' mean a reward was, times how improbable that completion was in nats per token; the
    largest over the group."""

    @property
    def mixed(self) -> bool:
        """Some did better than others: what a group-relative advantage lives on."""
        known = [reward for reward in self.rewards if reward is not None]
        return len(known) > 1 and max(known) - min(known) > 1e-6

    @property
    def not_scored(self) -> bool:
        """A completion could not be scored."""
        return self.scored and None in self.rewards

    def to_json(self) -> dict[str, Any]:
        """What a list of groups shows."""
        return {
            "source": self.source,
            "step": self.step,
            "stage": self.stage,
            "id": self.id,
            "prompt_id": self.prompt_id,
            "title": self.title,
            "rewards": list(self.rewards),
            "correct": list(self.correct),
            "kept": self.kept,
            "scored": self.scored,
            "mixed": self.mixed,
            "not_scored": self.not_scored,
            "cut_off": self.cut_off,
            "longest": self.longest,
            "surprise": round(self.surprise, 4),
        }


class LedgerIndex:
    """The groups of one run folder, in order of steps, training and evaluations apart."""

    def __init__(self, folder: RunFolder) -> None:
        self.sources = (("training", folder.rollouts), ("evaluation", folder.evaluations))
        self.read_as: dict[Path, tuple[int, int]] = {}
        self.found: dict[Path, list[Entry]] = {}

    def refresh(self) -> None:
        """Read the files that are new or changed since the last call, and forget those that are gone."""
        found: dict[Path, list[Entry]] = {}
        for source, folder in self.sources:
            for file in sorted(folder.glob("step-*.parquet")):
                with suppress(FileNotFoundError):  # the run keeps its ledger under a cap
                    state = file.stat()
                    seen = (state.st_size, state.st_mtime_ns)
                    if file not in self.found or self.read_as[file] != seen:
                        self.found[file], self.read_as[file] = entries_of(file, source), seen
                    found[file] = self.found[file]
        self.found = found

    def entries(self, source: str | None = None) -> list[Entry]:
        """All groups, or those of one source: training first, by step, and within a step as they were written."""
        return [entry for found in self.found.values() for entry in found if source in (None, entry.source)]

    def find(self, show: str = "all", search: str = "", source: str | None = None) -> list[Entry]:
        """The groups of one of the choices `SHOWN` whose prompt, completions or reasons hold a text, in any case.

        The most surprising and the longest come in that order, all others in order of steps.
        """
        entries = chosen(self.entries(source), show)
        if not search:
            return entries
        files = dict.fromkeys(entry.file for entry in entries)
        holding = {(file, group) for file in files for group in _holding(file, search)}
        return [entry for entry in entries if (entry.file, entry.id) in holding]

    def rows(self, entry: Entry) -> list[dict[str, Any]]:
        """Every column of the group's completions."""
        rows: list[dict[str, Any]] = _read(entry.file, filters=[("group_id", "=", entry.id)]).to_pylist()
        return rows

    def entry(self, source: str, step: int, group_id: str) -> Entry | None:
        """The group with this id that was recorded at this step."""
        for entry in self.entries(source):
            if entry.step == step and entry.id == group_id:
                return entry
        return None


def _read(file: Path, **options: Any) -> pa.Table:
    """A file of the ledger. Raises `RunFolderError` where it can't be read."""
    try:
        return parquet.read_table(file, **options)
    except (pa.ArrowException, OSError) as error:
        raise RunFolderError(f"{file} can't be read ({str(error).splitlines()[0]})", fix="take it out") from error


def chosen(entries: Sequence[Entry], show: str) -> list[Entry]:
    """Those of one of the choices `SHOWN`."""
    if show == "surprising":
        marked = [entry for entry in entries if entry.surprise > 0]
        return sorted(marked, key=lambda entry: -entry.surprise)[:SURPRISING]
    if show == "longest":
        return sorted(entries, key=lambda entry: -entry.longest)[:SURPRISING]
    tests = {
        "mixed": lambda entry: entry.mixed,
        "not scored": lambda entry: entry.not_scored,
        "cut off": lambda entry: entry.cut_off,
        "dropped": lambda entry: not entry.kept,
    }
    return [entry for entry in entries if show not in tests or tests[show](entry)]


def entries_of(file: Path, source: str) -> list[Entry]:
    """The groups of one file of the ledger."""
    table = _read(file, columns=[*COLUMNS, *LISTS])
    lengths = compute.list_value_length(table["token_ids"]).to_pylist()
    log_probs = _means(table["sampler_log_probs"].combine_chunks())
    groups: dict[str, list[dict[str, Any]]] = {}
    for row, length, log_prob in zip(table.select(list(COLUMNS)).to_pylist(), lengths, log_probs, strict=True):
        groups.setdefault(row["group_id"], []).append(row | {"tokens": length or 0, "log_prob": log_prob})
    shared = _shared_lines({rows[0]["prompt"] for rows in groups.values()})
    return [_entry(file, source, rows, shared) for rows in groups.values()]


def _entry(file: Path, source: str, rows: Sequence[Mapping[str, Any]], shared: int) -> Entry:
    first = rows[0]
    title = " ".join(first["prompt"][shared : shared + 4 * TITLE].split())
    return Entry(
        file=file,
        source=source,
        step=first["step"],
        stage=first["stage"],
        id=first["group_id"],
        prompt_id=first["prompt_id"],
        title=title if len(title) <= TITLE else f"{title[:TITLE]} ...",
        rewards=tuple(row["reward"] for row in rows),
        correct=tuple(row["correct"] for row in rows),
        kept=all(row["kept"] for row in rows),
        scored=any(row["reward"] is not None or row["reason"] or row["log_prob"] is not None for row in rows),
        cut_off=any(row["finish_reason"] == "length" for row in rows),
        longest=max(row["tokens"] for row in rows),
        surprise=_surprise(rows),
    )


def _shared_lines(prompts: set[str]) -> int:
    """How many characters the lines have that all of these begin with: those of a template and a system's message."""
    return os.path.commonprefix(list(prompts)).rfind("\n") + 1 if len(prompts) > 1 else 0


def _surprise(rows: Sequence[Mapping[str, Any]]) -> float:
    known = [row for row in rows if row["reward"] is not None and row["log_prob"] is not None]
    if len(known) < 2:
        return 0.0
    total = sum(row["reward"] for row in known)
    others = [(total - row["reward"]) / (len(known) - 1) for row in known]
    return max(abs(row["reward"] - mean) * -row["log_prob"] for row, mean in zip(known, others, strict=True))


def _means(lists: pa.ListArray) -> list[float | None]:
    """The mean of each list; None for one that is null or empty."""
    values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    lengths = np.asarray(compute.fill_null(compute.list_value_length(lists), 0).to_numpy(zero_copy_only=False))
    ends = np.cumsum(lengths)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    totals = sums[ends] - sums[ends - lengths]
    return [float(total / length) if length else None for total, length in zip(totals, lengths, strict=True)]


def _holding(file: Path, search: str) -> Iterator[str]:
    """The ids of the groups of a file in whose texts this stands."""
    table = _read(file, columns=["group_id", "prompt_id", "prompt", "completion", "reason"])
    holds = None
    for column in ("prompt_id", "prompt", "completion", "reason"):
        here = compute.fill_null(compute.match_substring(table[column], search, ignore_case=True), False)
        holds = here if holds is None else compute.or_(holds, here)
    yield from set(table["group_id"].filter(holds).to_pylist())
