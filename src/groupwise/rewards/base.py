"""What the settings of every reward have in common, and the checks they share."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.rewards.contract import Reward
from groupwise.settings import Settings

EXAMPLES = 3
"""How many rows an error shows."""


class RewardSettings(Settings, ABC):
    """One reward of a run."""

    name: str
    """Which reward it is; each has a fixed one."""
    weight: float = 1.0
    """Its factor in the weighted sum of a run's rewards. With 0 it is only recorded."""
    label: str | None = None
    """What metrics and messages call it; by default its name, or the function's."""

    @property
    def shown(self) -> str:
        """The label in effect."""
        return self.label or self.name

    @abstractmethod
    def build(self, base: Path) -> Reward:
        """The reward itself; `base` is the folder that relative paths start from."""


def require_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], reward: str) -> None:
    """Raise `DataError` where a row lacks a column that the reward needs."""
    for column in columns:
        lacking = [number for number, row in enumerate(rows) if column not in row]
        if lacking:
            there = ", ".join(sorted(map(str, rows[lacking[0]])))
            raise DataError(
                f"reward {reward!r} needs the column {column!r}; {len(lacking)} of {len(rows)} rows lack it",
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
