"""What rewards in worker processes share: the settings of their workers, and the reward around a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from groupwise.rewards.base import RewardSettings, require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.workers.limits import Limits
from groupwise.rewards.workers.pool import Counters, WorkerPool
from groupwise.types import Score


class PooledSettings(RewardSettings):
    """A reward that runs in worker processes."""

    cpu_seconds: float = Field(default=10.0, gt=0)
    """CPU seconds that one call may take: one completion, or one group for a `@group_reward`. What takes longer is not
    scored. Other load on the machine doesn't change it."""
    wall_seconds: float = Field(default=60.0, gt=0)
    """Wall-clock seconds that one call may take: the limit that ends a call that waits."""
    memory_mb: int | None = Field(default=None, ge=64)
    """MiB of address space that a worker may have, the libraries that it imports included; none by default."""
    workers: int = Field(default=2, ge=1)
    """The most calls at once."""

    @property
    def limits(self) -> Limits:
        """Of one call."""
        return Limits(self.cpu_seconds, self.wall_seconds, self.memory_mb)


class PooledReward:
    """A `Reward` whose function lives in worker processes."""

    def __init__(self, name: str, pool: WorkerPool) -> None:
        self.name, self.pool = name, pool

    @property
    def counters(self) -> Counters:
        """Time limits met, faults, and workers replaced so far."""
        return self.pool.counters

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Load the function in a worker, and compare the columns that it declares with the rows."""
        require_columns(rows, self.pool.describe().columns, self.name)

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [outcome.score for outcome in self.pool.score(records)]

    def close(self) -> None:
        self.pool.close()
