"""What a task is: rows to ask about, train and test apart, and the reward that belongs to them.

A row is a plain mapping. It has `prompt` (text) or `messages` (a chat), any other columns (all of them reach
the rewards), and optionally an `id`. Demonstrations add `completion`; pairs add `chosen` and `rejected`;
`groupwise.tasks.step_labels` says how steps are labelled. A task in full:

    class Parity(Settings):
        name: Literal["parity"] = "parity"

        def rows(self, split, seed):
            numbers = range(100) if split == "train" else range(100, 120)
            return [
                {"id": f"parity-{n}", "prompt": f"Is {n} even? yes or no:", "answer": ("yes", "no")[n % 2]}
                for n in numbers
            ]

        def reward(self):
            return {"name": "exact", "column": "answer"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

Row = Mapping[str, Any]
Split = Literal["train", "test"]


class Task(Protocol):
    """See the module's docstring; a task is its own table of settings."""

    @property
    def name(self) -> str:
        """The word that a run file uses."""

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """The rows of a split, the same for the same seed; the test split may be empty.

        Raises `DataError` for data that is missing or can't be used.
        """

    def reward(self) -> Mapping[str, Any] | None:
        """The task's own reward as a run file would write it, or None where it has none.

        Either a reward by its settings, `{"name": "exact", "column": "answer"}`, or a function that a reward
        worker can import, `{"name": "function", "target": "package.module:function"}`. Tasks never import
        rewards.
        """
