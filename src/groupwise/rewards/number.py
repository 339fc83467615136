"""The reward `number`: the completion's final number equals the gold, exactly.

    from groupwise.rewards import number
    number.grade("6 * 7 = 42. So the answer is 42.", "42")      # Score(value=1.0, correct=True, ...)
    number.grade("so far we have 36 and then we", "36", finish_reason="length")     # 0: nothing marked as the answer

`groupwise.rewards.number_grammar` says what a number is and where the answer is looked for. The gold is a
number, a text that is one, or a solution that ends in `#### n`. A gold that can't be read is reported before
training, and gives no reward if it is met.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from groupwise.rewards.base import RewardSettings, refuse_golds, require_columns
from groupwise.rewards.contract import Record, Reward
from groupwise.rewards.number_grammar import find_answer, gold_text, read_gold
from groupwise.types import FinishReason, Score


def grade(text: str, gold: Any, finish_reason: FinishReason = "stop") -> Score:
    """1 where the final number of `text` is the gold, else 0; not scored where the gold can't be read."""
    expected = read_gold(gold)
    if expected is None:
        return Score(value=None, reason=f"the gold {reprlib.repr(gold)} can't be read as a number")
    found = find_answer(text, cut_off=finish_reason != "stop")
    correct = found.value == expected
    taken = f"{found.text!r}, {found.rule}" if found.text else found.rule
    return Score(value=float(correct), correct=correct, reason=f"{taken}; the gold is {_shown(expected)}")


class Number(RewardSettings):
    """1 where the completion's final number equals the gold, else 0."""

    name: Literal["number"] = "number"
    column: str = "answer"
    """The column of the row that holds the gold number, or a solution that ends in `#### n`."""

    def build(self, base: Path) -> Reward:
        return self

    def gold_text(self, row: Mapping[str, Any]) -> str | None:
        return gold_text(row.get(self.column))

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        require_columns(rows, [self.column], self.shown)
        bad = [number for number, row in enumerate(rows) if read_gold(row[self.column]) is None]
        refuse_golds(rows, bad, self.column, self.shown, "a number")

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [grade(r.clean_text, r.columns.get(self.column), r.finish_reason) for r in records]

    def close(self) -> None:
        """It holds nothing."""


def _shown(value: Fraction) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:20]}...{text[-17:]}"
