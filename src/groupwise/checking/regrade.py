"""A second opinion: recorded completions judged again by another grader, and where the two disagree."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupwise.checking.judges import settings_from
from groupwise.checking.recorded import Recorded, kind_of, steps_of
from groupwise.errors import RewardError
from groupwise.models.loading import load_tokenizer
from groupwise.rewards.build import REWARDS
from groupwise.rewards.contract import Record
from groupwise.rewards.records import Decoder, record_for
from groupwise.run_file import load_run
from groupwise.telemetry.run_folder import RunFolder
from groupwise.types import Completion, Prompt, Score, Segment

REASONS = 3


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A completion that one grader calls right and the other one doesn't."""

    step: int
    group_id: str
    sample: int
    completion: str
    recorded: str
    """Verdict of the run's reward."""
    recorded_reason: str
    second: str
    """Verdict of the second grader."""
    second_reason: str


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What a second grader says of a run's completions."""

    grader: str
    judged: int
    verdicts: dict[str, int]
    """How many by `RECORDED / SECOND`, each `right`, `wrong`, `not scored` or `no verdict`."""
    disagreements: tuple[Disagreement, ...]
    reasons: tuple[tuple[str, int], ...]
    """Why it could not score some, the commonest reasons with their counts."""

    @property
    def share(self) -> float | None:
        """Disagreements among those that both call right or wrong; None where there are none such."""
        both = sum(count for pair, count in self.verdicts.items() if set(pair.split(" / ")) <= {"right", "wrong"})
        return len(self.disagreements) / both if both else None


def second_opinion(folder: RunFolder, grader: str, overrides: Sequence[str], most: int) -> SecondOpinion:
    """Judge at most `most` recorded completions, spread evenly over the run, with the reward called `grader`.

    Its settings are `overrides`, its rows' columns those of the run. Raises `RewardError` for a grader that there isn't
    or that can't be made, `ModelError` where the tokenizer of the run is gone.
    """
    if grader not in REWARDS:
        raise RewardError(f"there is no grader {grader!r}", fix=f"use one of {', '.join(REWARDS)}")
    settings = settings_from(REWARDS[grader], overrides)
    tokenizer = load_tokenizer(load_run(folder.run_file).run.model, lambda line: None)
    total = sum(len(rows) for rows in steps_of(folder))
    verdicts: Counter[str] = Counter()
    different: list[Disagreement] = []
    reasons: Counter[str] = Counter()
    with closing(settings.build(Path.cwd())) as reward:
        for rows in _spread(folder, total, most):
            for row, score in zip(rows, reward.score([_record(row, tokenizer) for row in rows]), strict=True):
                ours, theirs = _verdict(row.reward, row.correct), _verdict(score.value, score.correct)
                verdicts[f"{ours} / {theirs}"] += 1
                if score.value is None:
                    reasons[kind_of(score.reason) or "no reason given"] += 1
                if {ours, theirs} == {"right", "wrong"}:
                    different.append(_disagreement(row, ours, theirs, score))
    common = tuple(reasons.most_common(REASONS))
    return SecondOpinion(settings.shown, verdicts.total(), dict(verdicts.most_common()), tuple(different), common)


def opinion_json(opinion: SecondOpinion | None) -> dict[str, Any] | None:
    """The opinion as JSON values."""
    return None if opinion is None else {**dataclasses.asdict(opinion), "share": opinion.share}


def _spread(folder: RunFolder, total: int, most: int) -> Iterator[list[Recorded]]:
    """The whole ledger step by step, or `most` of its completions at even distances."""
    start = 0
    for rows in steps_of(folder, token_ids=True):
        places = range(start, start + len(rows))
        yield [
            row
            for place, row in zip(places, rows, strict=True)
            if total <= most or place * most // total != (place - 1) * most // total
        ]
        start += len(rows)


def _record(row: Recorded, tokenizer: Decoder) -> Record:
    """The record that the run's reward was given, but for the chat's messages, which aren't recorded."""
    data: Any = row.row
    ids = tuple(data["token_ids"])
    stop = ids[-1:] if data["finish_reason"] == "stop" else ()
    prompt = Prompt(data["prompt_id"], tuple(data["prompt_token_ids"]), data["prompt"], None, row.columns)
    return record_for(
        prompt, Completion((Segment(ids, None),), data["finish_reason"]), tokenizer, stop, data["group_id"]
    )


def _verdict(value: float | None, correct: bool | None) -> str:
    if value is None:
        return "not scored"
    return "no verdict" if correct is None else "right" if correct else "wrong"


def _disagreement(row: Recorded, ours: str, theirs: str, score: Score) -> Disagreement:
    return Disagreement(
        step=row.step,
        group_id=row.row["group_id"],
        sample=row.row["sample"],
        completion=row.text,
        recorded=ours,
        recorded_reason=row.reason,
        second=theirs,
        second_reason=score.reason,
    )
