"""The reward `exact`: the completion is the gold answer, character for character.

    from groupwise.rewards import exact
    exact.grade(" Paris\n", "Paris")           # Score(value=1.0, correct=True, ...)

The text compared is the completion without special tokens. The gold is a text or a number (compared as it is
printed). An empty gold would pay for saying nothing, so it can't be used: it is reported before training, and
gives no reward if it is met.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from groupwise.rewards.base import RewardSettings, refuse_golds, require_columns
from groupwise.rewards.contract import Record, Reward
from groupwise.types import Score


def grade(text: str, gold: Any, *, strip: bool = True, ignore_case: bool = False) -> Score:
    """1 where `text` is the gold, else 0; not scored where the gold is unusable."""
    expected = _gold_text(gold, strip)
    if expected is None:
        return Score(value=None, reason=f"the gold {reprlib.repr(gold)} is not a text that can be compared")
    given = text.strip() if strip else text
    correct = given.casefold() == expected.casefold() if ignore_case else given == expected
    reason = "is the gold" if correct else f"{reprlib.repr(given)} is not {reprlib.repr(expected)}"
    return Score(value=float(correct), correct=correct, reason=reason)


class Exact(RewardSettings):
    """1 where the completion is the gold answer, else 0."""

    name: Literal["exact"] = "exact"
    column: str = "answer"
    """The column of the row that holds the gold answer."""
    strip: bool = True
    """Ignore white space around the completion and the gold."""
    ignore_case: bool = False
    """Compare without regard to case."""

    def build(self, base: Path) -> Reward:
        return self

    def gold_text(self, row: Mapping[str, Any]) -> str | None:
        return _gold_text(row.get(self.column), self.strip)

    def written(self, answer: str) -> Mapping[str, str]:
        return {"alone": answer}

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        require_columns(rows, [self.column], self.shown)
        bad = [number for number, row in enumerate(rows) if _gold_text(row[self.column], self.strip) is None]
        refuse_golds(rows, bad, self.column, self.shown, "a text that can be compared")

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [
            grade(r.clean_text, r.columns.get(self.column), strip=self.strip, ignore_case=self.ignore_case)
            for r in records
        ]

    def close(self) -> None:
        """It holds nothing."""


def _gold_text(gold: Any, strip: bool) -> str | None:
    if isinstance(gold, float) and not math.isfinite(gold):
        return None  # how a missing value often arrives
    if not isinstance(gold, str | int | float):
        return None
    text = str(gold).strip() if strip else str(gold)
    return text or None
