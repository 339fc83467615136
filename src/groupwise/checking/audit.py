"""`groupwise audit`: what the recorded completions of a run say about its rewards; nothing is sampled or trained.

For each stage that scored completions: how many could not be scored or read, and why; whether a part of the reward was
gamed, and what explains the gain (`drift`); how length and repetition moved; and the completions that a person should
read (`suspicion`). Optionally a second grader judges the same completions (`regrade`).
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from groupwise.alarms import drift
from groupwise.checking.recorded import Recorded, groups_of, kind_of, steps_of
from groupwise.checking.suspicion import Context, Suspect, most_suspicious, suspects
from groupwise.telemetry.run_folder import RunFolder

SUSPECTS = 10
REASONS = 5
FITTED = 32
"""Completions of a step from which the weights of the parts are taken."""
UNREAD = 0.05
MOST_OF_IT = 0.8
LENGTH_DRIFT, REPETITION_DRIFT = 0.5, 0.1
"""What is said aloud: shares of completions, of the gain, of the first length; a difference of shares."""

_UNREAD = re.compile(
    r"\bno (?:number|answer|box|program|code)\b|\bcan't (?:be )?read\b|\bnot closed\b|\bnothing after\b"
    r"|\bcut off before\b"
)


@dataclass(slots=True)
class StageSeries:
    """The numbers of a stage, one of each per step."""

    steps: list[int] = field(default_factory=list)
    completions: int = 0
    reward: list[float | None] = field(default_factory=list)
    correct: list[float | None] = field(default_factory=list)
    not_scored: list[float | None] = field(default_factory=list)
    unread: list[float | None] = field(default_factory=list)
    length: list[float | None] = field(default_factory=list)
    truncated: list[float | None] = field(default_factory=list)
    repetition: list[float | None] = field(default_factory=list)
    parts: dict[str, list[float | None]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    """Kinds of reasons of completions that could not be scored or read."""
    fitted: list[tuple[dict[str, float | None], float]] = field(default_factory=list)
    context: Context = field(default_factory=Context)

    def see(self, rows: Sequence[Recorded]) -> None:
        """Add the completions of one step."""
        count = len(self.steps)
        self.steps.append(rows[0].step)
        self.completions += len(rows)
        self.reward.append(_mean(row.reward for row in rows))
        self.correct.append(_mean(row.correct for row in rows))
        self.not_scored.append(_mean(row.reward is None for row in rows))
        self.unread.append(_mean(is_unread(row) for row in rows))
        self.length.append(_mean(row.tokens for row in rows))
        self.truncated.append(_mean(row.row["finish_reason"] == "length" for row in rows))
        self.repetition.append(_mean(row.repetition for row in rows))
        for name in dict.fromkeys([*self.parts, *(name for row in rows for name in row.parts)]):
            series = self.parts.setdefault(name, [None] * count)
            series.append(_mean(row.parts.get(name) for row in rows))
        self.reasons.update(kind_of(row.reason) or "no reason given" for row in rows if is_unread(row))
        scored = [row for row in rows if row.reward is not None]
        self.fitted += [(row.parts, row.reward or 0.0) for row in scored[:: max(1, len(scored) // FITTED)]]
        for row in rows:
            self.context.see(row)


@dataclass(frozen=True, slots=True)
class StageAudit:
    """What is said of one stage. Shares and means; quarters are of its steps."""

    stage: str
    steps: int
    completions: int
    not_scored: float
    unread: float
    """Share that could not be scored, or in which no answer could be read, as far as reasons say so."""
    unread_by_quarter: tuple[float, ...]
    reasons: tuple[tuple[str, int], ...]
    changes: tuple[drift.Change, ...]
    parts: tuple[drift.PartChange, ...]
    gamed: drift.Gamed | None
    suspects: tuple[Suspect, ...]


def is_unread(row: Recorded) -> bool:
    """Not scored, or called wrong with a reason that says that no answer could be read."""
    return row.reward is None or (row.correct is False and _UNREAD.search(row.reason) is not None)


def audit(folder: RunFolder) -> list[StageAudit]:
    """One audit for each stage that scored completions. Raises `RunFolderError` where nothing is recorded."""
    stages: dict[str, StageSeries] = {}
    for rows in steps_of(folder):
        if any(row.reward is not None or row.reason for row in rows):
            stages.setdefault(rows[0].row["stage"], StageSeries()).see(rows)
    found: dict[str, list[Suspect]] = {stage: [] for stage in stages}
    improbable = {stage: series.context.improbable() for stage, series in stages.items()}
    for rows in steps_of(folder):
        stage = rows[0].row["stage"]
        if stage in stages:
            step = [
                suspect
                for group in groups_of(rows)
                for suspect in suspects(group, stages[stage].context, improbable[stage])
            ]
            found[stage] = most_suspicious([*found[stage], *step], SUSPECTS)
    return [_audit_stage(stage, series, found[stage]) for stage, series in stages.items()]


def remarks(one: StageAudit) -> Iterator[str]:
    """What stands out, in plain words."""
    if one.gamed is not None:
        fallen = " and ".join(one.gamed.fallen)
        yield (
            f"REWARD HACKING: {one.gamed.part} explains {one.gamed.share_of_gain:.0%} of the gain since quarter "
            f"{one.gamed.since_quarter}, while {fallen} fell"
        )
    by_name = {change.name: change for change in one.changes}
    correct = by_name.get(drift.CORRECT)
    for part in one.parts if one.gamed is None and len(one.parts) > 1 else ():
        if (part.share_of_gain or 0.0) >= MOST_OF_IT and correct is not None and not correct.clear:
            yield f"{part.name} explains {part.share_of_gain:.0%} of the gain, and no more completions are right"
    if one.unread > UNREAD:
        yield f"{one.unread:.1%} of completions could not be scored or read, most often: {one.reasons[0][0]}"
    tokens, repetition = by_name.get("tokens"), by_name.get("repetition")
    if tokens is not None and tokens.clear and abs(tokens.difference) > LENGTH_DRIFT * tokens.first:
        yield f"completions went from {tokens.first:.0f} to {tokens.last:.0f} tokens"
    if repetition is not None and repetition.clear and repetition.difference > REPETITION_DRIFT:
        yield f"more of the text repeats itself: {repetition.first:.0%} of four-word pieces, then {repetition.last:.0%}"
    if not one.changes:
        yield f"{one.steps} steps are too few to tell a change from chance"


def to_json(audits: Sequence[StageAudit]) -> list[dict[str, Any]]:
    """The audits as JSON values."""
    tables = []
    for one in audits:
        table = dataclasses.asdict(dataclasses.replace(one, suspects=()))
        tables.append(table | {"remarks": list(remarks(one)), "suspects": [_suspect(it) for it in one.suspects]})
    return tables


def _audit_stage(stage: str, series: StageSeries, found: Sequence[Suspect]) -> StageAudit:
    weights = drift.part_weights(series.fitted)
    named: dict[str, Sequence[float | None]] = {
        "reward": series.reward,
        drift.CORRECT: series.correct,
        "not scored": series.not_scored,
        "cut off": series.truncated,
        "repetition": series.repetition,
        "tokens": series.length,
    }
    changes = [drift.change(name, values) for name, values in named.items()]
    return StageAudit(
        stage=stage,
        steps=len(series.steps),
        completions=series.completions,
        not_scored=_known_mean(series.not_scored),
        unread=_known_mean(series.unread),
        unread_by_quarter=tuple(_known_mean(part) for part in _quarters(series.unread)),
        reasons=tuple(series.reasons.most_common(REASONS)),
        changes=tuple(change for change in changes if change is not None),
        parts=tuple(drift.explain_gain(series.reward, series.parts, weights)),
        gamed=drift.gamed(series.reward, series.parts, series.correct, weights),
        suspects=tuple(found),
    )


def _suspect(suspect: Suspect) -> dict[str, Any]:
    row = suspect.completion.row
    kept = ("step", "group_id", "sample", "prompt", "completion", "finish_reason", "reward", "correct", "reason")
    return {"points": suspect.points, "why": list(suspect.why), **{key: row[key] for key in kept}}


def _quarters(values: Sequence[float | None]) -> list[Sequence[float | None]]:
    """Four runs of steps, as even as can be; fewer where there are fewer steps."""
    cuts = [len(values) * quarter // drift.QUARTERS for quarter in range(drift.QUARTERS + 1)]
    return [values[start:end] for start, end in pairwise(cuts) if end > start]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _known_mean(values: Iterable[float | None]) -> float:
    """Of shares that every step has."""
    mean = _mean(values)
    assert mean is not None, "every step has completions"
    return mean
