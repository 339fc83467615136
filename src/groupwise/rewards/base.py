"""What the settings of every reward have in common, and the checks they share."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from groupwise.errors import DataError
from groupwise.rewards.contract import Record, Reward
from groupwise.settings import Settings

EXAMPLES = 3
"""How many rows an error shows."""

Role = Literal["term", "factor", "gate"]
"""What a reward does to the total; `rewards.combine` has the formula."""

Normalise = Literal["none", "group"]
"""What a term's values are measured against before they are weighted."""


class RewardSettings(Settings, ABC):
    """One reward of a run."""

    name: str
    """Which reward it is; each has a fixed one."""
    weight: float = 1.0
    """Its factor in the weighted sum of a run's rewards. With 0 it is only recorded."""
    label: str | None = None
    """What metrics and messages call it; by default its name, or the function's."""
    role: Role = "term"
    """`term`: added to the sum, times its weight. `factor`: multiplies the sum. `gate`: where its value is 0 or less
    the total is 0, and the completion isn't right."""
    normalise: Normalise = "none"
    """`group`: a term's values become (value - mean) / (std + 1e-6), over the completions of the same prompt that it
    applies to, before they are weighted."""

    @model_validator(mode="after")
    def _role_fits(self) -> Self:
        if self.role != "term" and self.weight not in (0, 1):
            raise ValueError(
                f"weight = {self.weight:g} means nothing for a {self.role}; leave it out, or give 0 to only record it"
            )
        if self.role != "term" and self.normalise != "none":
            raise ValueError(f'normalise = "{self.normalise}" is for terms; leave it out for a {self.role}')
        return self

    @property
    def shown(self) -> str:
        """The label in effect."""
        return self.label or self.name

    @abstractmethod
    def build(self, base: Path) -> Reward:
        """The reward itself; `base` is the folder that relative paths start from."""

    def gold_text(self, row: Mapping[str, Any]) -> str | None:
        """The row's gold answer, for a check of the reward before training; None where it compares with none."""
        return None

    def written(self, answer: str) -> Mapping[str, str]:
        """Completions that give this answer, by the name of the form; with a gold for an answer each must be right."""
        return {
            "in a box": f"\\boxed{{{answer}}}",
            "after ####": f"#### {answer}",
            "in a sentence": f"The answer is {answer}.",
        }


def groups_of(records: Sequence[Record]) -> list[list[int]]:
    """The positions of the records of each group: whole groups, since a call to `score` never cuts one."""
    groups: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        groups.setdefault(record.group_id, []).append(position)
    return list(groups.values())


def require_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], reward: str) -> None:
    """Raise `DataError` where a row lacks a column that the reward needs."""
    for column in columns:
        lacking = [number for number, row in enumerate(rows) if column not in row]
        if lacking:
            there = ", ".join(sorted(map(str, rows[lacking[0]])))
            told = "the row lacks it" if len(rows) == 1 else f"{len(lacking)} of {len(rows)} rows lack it"
            raise DataError(
                f"reward {reward!r} needs the column {column!r}; {told}",
                fix=f"map it from one of the columns there ({there}) or add it",
            )


def refuse_golds(
    rows: Sequence[Mapping[str, Any]], unreadable: Sequence[int], column: str, reward: str, what: str
) -> None:
    """Raise `DataError` with examples where golds can't be read; `unreadable` holds row numbers."""
    if unreadable:
        shown = ", ".join(
            f"{reprlib.repr(rows[n][column])} ({rows[n].get('id', f'row {n}')})" for n in unreadable[:EXAMPLES]
        )
        more = ", ..." if len(unreadable) > EXAMPLES else ""
        raise DataError(
            f"reward {reward!r}: {len(unreadable)} of {len(rows)} golds in column {column!r} are not {what}: "
            f"{shown}{more}",
            fix="mend or remove these rows",
        )
