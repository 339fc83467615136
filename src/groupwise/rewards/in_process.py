"""A reward function that no worker process can load, called in the trainer's own process.

That is what a closure, a lambda or a function of a notebook is: it exists in this process alone. It works
like any other reward but for the isolation: nothing ends a call that hangs, and it sees all that the trainer
sees. A warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from groupwise.rewards.base import require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.workers.normalise import Outcome, call_function
from groupwise.rewards.workers.pool import Counters
from groupwise.rewards.workers.target import columns_of, label_of
from groupwise.types import Score


class InProcess:
    """A `Reward` around a function that only this process has. Warns when it is made."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or label_of(function)
        self.counters = Counters()
        self.notes = (
            f"reward {self.name!r} can't be loaded by a worker process, so it runs in this process WITHOUT a "
            "time limit: a call that hangs stops the run; to have it isolated, move it to a file of its own",
        )
        warnings.warn(self.notes[0], stacklevel=2)

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        require_columns(rows, columns_of(self.function), self.name)

    def score(self, records: Sequence[Record]) -> list[Score]:
        if getattr(self.function, "groupwise_group_reward", False):
            calls = [list(group) for _, group in groupby(records, key=lambda record: record.group_id)]
            outcomes = [outcome for call in calls for outcome in self._call(call, group=True)]
        else:
            outcomes = [outcome for record in records for outcome in self._call([record], group=False)]
        self.counters.errors += sum(outcome.fault != "" for outcome in outcomes)
        return [outcome.score for outcome in outcomes]

    def _call(self, records: Sequence[Record], group: bool) -> list[Outcome]:
        own = [replace(record, columns=dict(record.columns)) for record in records]
        return call_function(self.function, own, group=group, name=self.name)

    def close(self) -> None:
        """It holds nothing."""
