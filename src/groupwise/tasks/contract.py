"""What a task is: rows to ask about, train and test apart, and the reward that belongs to them.

A row is a plain mapping. It has `prompt` (text) or `messages` (a chat), any other columns (all of them reach the
rewards), and optionally an `id`. Demonstrations add `completion`; pairs add `chosen` and `rejected`. A task in full:

    class Parity(Settings):
        name: Literal["parity"] = "parity"

        def rows(self, split, seed):
            numbers = range(100) if split == "train" else range(100, 120)
            return [{"id": f"parity-{n}", "prompt": f"Is {n} even? Answer yes or no.",
                     "answer": "no" if n % 2 else "yes", "completion": "no" if n % 2 else "yes"} for n in numbers]

        def reward(self):
            return Exact(column="answer")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

Row = Mapping[str, Any]
Split = Literal["train", "test"]


class Task(Protocol):
    """See the module's docstring; a task is its own table of settings."""

    name: str

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """The rows of a split, the same for the same seed; an empty test split is allowed. Raises `DataError`."""

    def reward(self) -> Any | None:
        """The settings of the task's own reward (see `groupwise.rewards`), or None where it has none."""
