"""The reward `process_rule`: a reward for each step of a completion, from a function of the user's.

    [[rewards]]
    name = "process_rule"
    file = "my_rules.py"            # as for the reward `function`
    function = "rule"
    aggregate = "product"

`groupwise.rewards.learned.step_rules` says what the function is given and returns. It runs in worker processes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from groupwise.rewards.contract import Record
from groupwise.rewards.function import Function
from groupwise.rewards.learned import step_rules
from groupwise.rewards.learned.steps import Aggregate, failed, split
from groupwise.rewards.pooled import PooledReward
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target
from groupwise.types import Score


class ProcessRule(Function):
    """Rewards of steps from a function that judges one step, and their aggregate as the completion's."""

    name: Literal["process_rule"] = "process_rule"  # type: ignore[assignment]
    aggregate: Aggregate = "min"
    """How the steps' rewards become the completion's value."""
    separator: str = Field(default="\n", min_length=1)
    """What stands between two steps."""

    def build(self, base: Path) -> StepRules:
        """The reward, with no process started yet. Raises `RewardError` for a missing file or variable."""
        rule = super().build(base).pool.target
        settings = {
            "place": rule.place,
            "function": rule.function,
            "separator": self.separator,
            "aggregate": self.aggregate,
        }
        target = Target(step_rules.__name__, step_rules.make.__name__, json.dumps(settings), self.shown)
        pool = WorkerPool(target, workers=self.workers, limits=self.limits, env=self.env)
        return StepRules(self.shown, pool, self.separator)


class StepRules(PooledReward):
    """A `PooledReward` that gives None for each step where its worker could not answer."""

    def __init__(self, name: str, pool: WorkerPool, separator: str) -> None:
        super().__init__(name, pool)
        self.separator = separator

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [
            failed(record, split(record.text, self.separator), outcome.score.reason) if outcome.fault else outcome.score
            for record, outcome in zip(records, self.pool.score(records), strict=True)
        ]
