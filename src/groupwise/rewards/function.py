"""The reward `function`: a function of the user's, called in worker processes.

    [[rewards]]
    name = "function"
    file = "my_rewards.py"          # beside the run file; or target = "package.module:reward"
    function = "reward"
    env = ["MY_TOKEN"]              # nothing else of the environment reaches it
    time_limit = 5.0

`contract` says what the function is given and what it may return. What it prints goes to standard error. It
may say which columns it needs: `reward.columns = ["gold"]`; that is checked before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from groupwise.errors import RewardError
from groupwise.rewards.base import RewardSettings, require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.pool import Counters, WorkerPool
from groupwise.rewards.target import Target
from groupwise.types import Score


class Function(RewardSettings):
    """A function in a file, or in a module that can be imported."""

    name: Literal["function"] = "function"
    file: str | None = None
    """A Python file, relative to the run file's folder."""
    function: str = "reward"
    """The function in that file."""
    target: str | None = None
    """Instead of a file: `package.module:function`."""
    env: tuple[str, ...] = ()
    """The environment variables that it may see; they must be set."""
    time_limit: float = Field(default=10.0, gt=0)
    """Wall-clock seconds for one call: one completion, or one group for a `@group_reward`."""
    workers: int = Field(default=2, ge=1)
    """The most processes that call it at once."""

    @model_validator(mode="after")
    def _one_place(self) -> Function:
        if (self.file is None) == (self.target is None):
            raise ValueError('give either file = "rewards.py" or target = "package.module:function"')
        if self.file is not None and not self.file.endswith(".py"):
            raise ValueError(f"file = {self.file!r} is no Python file; name one that ends in .py")
        if self.target is not None and not all(part.strip() for part in self.target.partition(":")):
            raise ValueError(f'target = {self.target!r} must read "package.module:function"')
        return self

    @property
    def shown(self) -> str:
        return self.label or (self.function if self.target is None else self.target.partition(":")[2])

    def build(self, base: Path) -> FunctionReward:
        """The reward, with no process started yet. Raises `RewardError` for a missing file or variable."""
        if self.target is not None:
            module, _, function = self.target.partition(":")
            target = Target(module, function)
        else:
            path = (base / Path(str(self.file)).expanduser()).absolute()
            if not path.is_file():
                raise RewardError(f"reward {self.shown!r}: there is no file {path}", fix="mend `file`")
            target = Target(str(path), self.function)
        pool = WorkerPool(target, workers=self.workers, time_limit=self.time_limit, env=self.env)
        return FunctionReward(self.shown, pool)


class FunctionReward:
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
