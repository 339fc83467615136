"""What rewards read off the text have in common: which part of the completion they look at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.rewards.base import RewardSettings
from groupwise.rewards.contract import Record, Reward
from groupwise.types import Score


class TextReward(RewardSettings, ABC):
    """A reward that scores one completion at a time by its text, in this process."""

    def build(self, base: Path) -> Reward:
        return self

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """By default it needs nothing of the rows."""

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [self.score_one(record) for record in records]

    def close(self) -> None:
        """It holds nothing."""

    @abstractmethod
    def score_one(self, record: Record) -> Score:
        """The score of one completion."""


class AnswerReward(TextReward):
    """A reward that may look at the answer alone, without the thinking before it."""

    after: str | None = None
    """Only the text after the last occurrence of this counts, `</think>` for instance; where it doesn't occur, there
    is no text. By default the whole completion counts."""

    def answer(self, record: Record) -> str:
        """The text that counts, without special tokens unless `after` is one."""
        if self.after is None:
            return record.clean_text
        text = record.clean_text if self.after in record.clean_text else record.text
        before, marker, answer = text.rpartition(self.after)
        return answer if marker else ""
