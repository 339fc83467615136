"""What each reward of a stage says of answers that are known to be right or wrong, before any training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupwise.checking.probes import Kind, Probe, gold_probes, sample_rows, spoilt_probes
from groupwise.errors import DataError
from groupwise.rewards.base import RewardSettings
from groupwise.rewards.combine import Combined
from groupwise.rewards.contract import Record, Reward, TriesRows
from groupwise.types import Score

Rows = Sequence[Mapping[str, Any]]
RecordOf = Callable[[Probe, str], Record]
"""A probe, and the id of the group it is alone in, as the record that rewards are given."""

TOLERATED = 0.05
"""Share of spoilt answers of one kind that may be called right by chance: a digit of a solution that doesn't matter."""
NEIGHBOURS = 3
"""Other rows that are looked at for an answer of another value."""


@dataclass(slots=True)
class Tally:
    """Verdicts on the probes of one name."""

    right: int = 0
    wrong: int = 0
    not_scored: int = 0
    no_verdict: int = 0
    """A value, but neither right nor wrong."""
    total_value: float = 0.0

    def add(self, score: Score) -> None:
        """Count one more."""
        self.right += score.correct is True
        self.wrong += score.correct is False and score.value is not None
        self.not_scored += score.value is None
        self.no_verdict += score.correct is None and score.value is not None
        self.total_value += score.value or 0.0

    @property
    def count(self) -> int:
        """All of them."""
        return self.right + self.wrong + self.not_scored + self.no_verdict

    @property
    def mean_value(self) -> float | None:
        """Of those that were scored."""
        scored = self.count - self.not_scored
        return self.total_value / scored if scored else None


@dataclass(frozen=True, slots=True)
class Judged:
    """A probe and what the reward said."""

    probe: Probe
    score: Score


@dataclass(slots=True)
class VerifierReport:
    """One reward on the probes of some rows."""

    label: str
    own_gold: bool
    """It names the gold it compares with, so every form must be right."""
    rows: int
    tallies: dict[tuple[Kind, str], Tally] = field(default_factory=dict)
    """By kind and name of the probe."""
    surprises: list[Judged] = field(default_factory=list)
    """Golds that were not called right, and spoilt answers that were."""
    refused: list[Judged] = field(default_factory=list)
    """One probe of each row of which no gold was called right, where that tells something."""
    accepted: dict[str, Probe] = field(default_factory=dict)
    """By row id: the first gold that was called right."""

    def right(self, kind: Kind) -> int:
        """How many probes of a kind were called right."""
        return sum(tally.right for (its_kind, _), tally in self.tallies.items() if its_kind == kind)


def bad_rows(reward: Combined, rows: Rows) -> list[tuple[Mapping[str, Any], str]]:
    """Every row that a part of the reward refuses, with the words of the first that does."""
    bad: dict[int, str] = {}
    for part in reward.parts:
        if isinstance(part.reward, TriesRows):
            found = {n: f"reward {part.label!r}: {why}" for n, why in part.reward.bad_rows(rows).items()}
        else:
            found = _halved(part.reward.check, rows)
        bad = found | bad
    return [(rows[number], bad[number]) for number in sorted(bad)]


def _halved(check: Callable[[Rows], None], rows: Rows, first: int = 0) -> dict[int, str]:
    """Rows that a check refuses, by number counted from `first`; found by halving, so that sound rows cost little."""
    try:
        check(rows)
    except DataError as error:
        if len(rows) == 1:
            return {first: error.what}
        middle = len(rows) // 2
        return _halved(check, rows[:middle], first) | _halved(check, rows[middle:], first + middle)
    return {}


def check_verifier(
    settings: RewardSettings, reward: Reward, rows: Rows, count: int, record_of: RecordOf
) -> VerifierReport:
    """Ask the reward about the golds of `count` rows, then about what must not be called right."""
    chosen = sample_rows(rows, count)
    report = VerifierReport(settings.shown, any(settings.gold_text(row) is not None for row in chosen), len(chosen))
    golds = [list(gold_probes(settings, row)) for row in chosen]
    judged = iter(_judge(reward, [probe for row_golds in golds for probe in row_golds], record_of))
    verdicts = [[next(judged) for _ in row_golds] for row_golds in golds]
    right = [next((one.probe for one in row if one.score.correct), None) for row in verdicts]
    report.accepted = {str(probe.row["id"]): probe for probe in right if probe is not None}
    for row_verdicts, first in zip(verdicts, right, strict=True):
        _note_golds(report, row_verdicts, first)
    accepted = list(report.accepted.values())
    spoilt = [
        probe
        for place, gold in enumerate(accepted)
        for probe in spoilt_probes(settings, gold, (accepted[place + 1 :] + accepted[:place])[:NEIGHBOURS])
    ]
    if not accepted and chosen:
        spoilt = [Probe(row, "nothing", "nothing", "") for row in chosen]
    for one in _judge(reward, spoilt, record_of):
        _count(report, one)
        if one.score.correct and (report.own_gold or one.probe.kind == "nothing"):
            report.surprises.append(one)
    return report


def pays(reward: Reward, accepted: Sequence[Probe], record_of: RecordOf) -> tuple[float, float] | None:
    """What the reward pays on average for accepted golds, and for nothing, each pair as a group; None: not scored."""
    pairs = [(probe, replace(probe, text="")) for probe in accepted]
    records = [record_of(probe, f"pair-{number}") for number, pair in enumerate(pairs) for probe in pair]
    values = [score.value for score in reward.score(records)] if records else []
    golds, nothings = [], []
    for gold, nothing in zip(values[::2], values[1::2], strict=True):
        if gold is not None and nothing is not None:
            golds.append(gold)
            nothings.append(nothing)
    return (sum(golds) / len(golds), sum(nothings) / len(nothings)) if golds else None


def _note_golds(report: VerifierReport, verdicts: Sequence[Judged], accepted: Probe | None) -> None:
    for one in verdicts:
        _count(report, one)
        if not one.score.correct and report.own_gold and one.probe.answer is not None:
            report.surprises.append(one)
    written = [one for one in verdicts if one.probe.answer is None]
    telling = verdicts if report.own_gold else written
    if accepted is None and telling and any(one.score.correct is False or one.score.value is None for one in telling):
        report.refused.append(telling[0])


def _count(report: VerifierReport, one: Judged) -> None:
    report.tallies.setdefault((one.probe.kind, one.probe.name), Tally()).add(one.score)


def _judge(reward: Reward, probes: Sequence[Probe], record_of: RecordOf) -> list[Judged]:
    records = [record_of(probe, f"probe-{number}") for number, probe in enumerate(probes)]
    scores = reward.score(records) if records else []
    return [Judged(probe, score) for probe, score in zip(probes, scores, strict=True)]
