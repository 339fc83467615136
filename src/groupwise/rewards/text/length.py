"""The reward `length`: how long the completion is, by a named shape.

    from groupwise.rewards.text import length
    length.grade(300, "linear", start=200, end=400)     # 0.5
    length.grade(300, "cosine", start=0, end=400)       # 0.146
    length.grade(300, "target", target=250, width=100)  # 0.5

With L the length in tokens, words or characters, and x = (L - start) / (end - start) held between 0 and 1:

    linear   1 - x
    cosine   (1 + cos(pi x)) / 2
    target   1 - |L - target| / width, and not below 0
    group    1/2 - (L - least) / (most - least) over the completions of the group, 0 where all are equally long

Where `end` is below `start`, longer is better. `linear`, `cosine` and `target` lie between 0 and 1, and with `floor`
between it and 1: `role = "factor"` then scales a right answer by its length, which is the cosine reward of
"Demystifying Long Chain-of-Thought Reasoning in LLMs" (arXiv:2502.03373) for right answers. `group` lies between -1/2
and 1/2 (Kimi k1.5, arXiv:2501.12599, which keeps it from rewarding wrong answers; here nothing is known of the answer,
so give it a small weight). `target` may be a column: a prompt that asks for so many tokens (L1, arXiv:2503.04697).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from groupwise.rewards.base import groups_of, refuse_golds, require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import AnswerReward
from groupwise.rewards.text.counts import characters, words
from groupwise.types import Score

Shape = Literal["linear", "cosine", "target", "group"]


def grade(
    length: float,
    shape: Literal["linear", "cosine", "target"],
    *,
    start: float = 0,
    end: float = 0,
    target: float = 0,
    width: float = 0,
    floor: float = 0.0,
) -> Score:
    """The shaped reward of one length; `end` must differ from `start`, `width` be above 0, where they are used."""
    if shape == "target":
        value = max(0.0, 1 - abs(length - target) / width)
    else:
        x = min(1.0, max(0.0, (length - start) / (end - start)))
        value = 1 - x if shape == "linear" else (1 + math.cos(math.pi * x)) / 2
    return Score(value=floor + (1 - floor) * value, reason=f"length {length:g}")


def grade_group(lengths: Sequence[float]) -> list[Score]:
    """Of each length in a group how short it is beside the others: 1/2 for the shortest, -1/2 for the longest."""
    least, most = min(lengths), max(lengths)
    span = most - least
    return [
        Score(
            value=0.5 - (length - least) / span if span else 0.0, reason=f"length {length:g} of {least:g} to {most:g}"
        )
        for length in lengths
    ]


class Length(AnswerReward):
    """A reward for the completion's length."""

    name: Literal["length"] = "length"
    shape: Shape
    """`linear` or `cosine` from `start` to `end`, `target` with its `width`, or `group`: shorter than the others."""
    unit: Literal["tokens", "words", "characters"] = "tokens"
    """What is counted; tokens with the stop token."""
    start: int | None = Field(default=None, ge=0)
    """Length with the whole reward."""
    end: int | None = Field(default=None, ge=0)
    """Length with the least reward; below `start` where longer is better."""
    target: int | None = Field(default=None, ge=0)
    """The best length."""
    target_column: str | None = None
    """Instead: the column of the row that holds it."""
    width: int | None = Field(default=None, ge=1)
    """Distance from the target with the least reward."""
    floor: float = Field(default=0.0, ge=0, lt=1)
    """The least reward."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = {key for key in ("start", "end", "target", "target_column", "width") if getattr(self, key) is not None}
        if self.shape == "target":
            goal = "target" if self.target_column is None else "target_column"
            needed = {goal, "width"}
        else:
            needed = set() if self.shape == "group" else {"start", "end"}
        if given != needed:
            missing = ", ".join(sorted(needed)) or "none of start, end, target, target_column, width"
            raise ValueError(f'shape = "{self.shape}" takes {missing}; given: {", ".join(sorted(given)) or "none"}')
        if self.shape == "group" and self.floor:
            raise ValueError('shape = "group" has no floor; leave it out')
        if self.start is not None and self.start == self.end:
            raise ValueError(f"start and end are both {self.start}; put them apart")
        if self.unit == "tokens" and self.after is not None:
            raise ValueError('unit = "tokens" counts the whole completion; beside `after` give words or characters')
        return self

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.target_column is not None:
            require_columns(rows, [self.target_column], self.shown)
            bad = [number for number, row in enumerate(rows) if not _is_length(row[self.target_column])]
            refuse_golds(rows, bad, self.target_column, self.shown, "lengths")

    def score(self, records: Sequence[Record]) -> list[Score]:
        if self.shape != "group":
            return super().score(records)
        scores: dict[int, Score] = {}
        for group in groups_of(records):
            scores |= zip(group, grade_group([self._measure(records[position]) for position in group]), strict=True)
        return [scores[position] for position in range(len(records))]

    def score_one(self, record: Record) -> Score:
        assert self.shape != "group", "which is scored group by group"
        target = self.target if self.target_column is None else record.columns.get(self.target_column)
        if self.shape == "target" and not _is_length(target):
            return Score(value=None, reason=f"{target!r} is no length to aim at")
        return grade(
            self._measure(record),
            self.shape,
            start=self.start or 0,
            end=self.end or 0,
            target=target or 0,
            width=self.width or 0,
            floor=self.floor,
        )

    def _measure(self, record: Record) -> int:
        if self.unit == "tokens":
            return len(record.token_ids)
        return (words if self.unit == "words" else characters)(self.answer(record))


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
