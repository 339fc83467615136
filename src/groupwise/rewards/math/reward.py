"""The reward `math`: the completion's answer is the gold, mathematically.

[[rewards]]
name = "math"
column = "answer"
percent = "value"           # any field of Policy
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from groupwise.rewards.base import refuse_golds, require_columns
from groupwise.rewards.math.grading import read_gold
from groupwise.rewards.math.policy import Policy
from groupwise.rewards.pooled import PooledReward, PooledSettings
from groupwise.rewards.workers.limits import Limits
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target

MEMORY_MB = 256
"""MiB of address space: a worker uses about 50 MiB of memory, and what it computes is bounded."""


class Math(Policy, PooledSettings):
    """1 where the answer is the gold, else 0; not scored where the gold can't be read, or a limit is met."""

    name: Literal["math"] = "math"
    column: str = "answer"
    """The column of the row that holds the gold: an answer, or a solution that ends in a box or in `#### answer`."""
    cpu_seconds: float = Field(default=3.0, gt=0)
    """CPU seconds that one completion may take. What takes longer is not scored; an answer to a problem takes
    milliseconds."""
    wall_seconds: float = Field(default=20.0, gt=0)
    """Wall-clock seconds that one completion may take: the limit that ends a call on a machine that stands still."""
    memory_mb: int | None = Field(default=MEMORY_MB, ge=64)
    """MiB of address space that a worker may have."""

    def build(self, base: Path) -> MathReward:
        """The reward, with no process started yet."""
        policy = Policy(**{field: getattr(self, field) for field in Policy.model_fields})
        return MathReward(self.shown, self.column, pool_of(policy, self.workers, self.limits, self.column, self.shown))

    def gold_text(self, row: Mapping[str, Any]) -> str | None:
        reading = read_gold(row.get(self.column))
        return None if reading is None else reading.text


class MathReward(PooledReward):
    """Grades in worker processes."""

    def __init__(self, name: str, column: str, pool: WorkerPool) -> None:
        super().__init__(name, pool)
        self.column = column

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raise `DataError` where the column is missing, or holds golds that can't be read."""
        require_columns(rows, [self.column], self.name)
        bad = [number for number, row in enumerate(rows) if read_gold(row[self.column]) is None]
        refuse_golds(rows, bad, self.column, self.name, "an answer that can be read")


def pool_of(policy: Policy, workers: int, limits: Limits, column: str, label: str = "math") -> WorkerPool:
    """Worker processes that grade under a policy, none started yet."""
    settings = json.dumps({"column": column, **policy.model_dump()})
    return WorkerPool(
        Target("groupwise.rewards.math.grading", "grader", settings, label), workers=workers, limits=limits
    )
