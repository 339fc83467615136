"""The reward `function`: a function of the user's, called in worker processes.

    [[rewards]]
    name = "function"
    file = "my_rewards.py"          # beside the run file; or target = "package.module:reward"
    function = "reward"
    env = ["MY_TOKEN"]              # nothing else of the environment reaches it
    cpu_seconds = 5.0

`contract` says what the function is given and what it may return. What it prints goes to standard error. It
may say which columns it needs: `reward.columns = ["gold"]`; that is checked before a model is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from groupwise.errors import RewardError
from groupwise.rewards.pooled import PooledReward, PooledSettings
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target


class Function(PooledSettings):
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

    def build(self, base: Path) -> PooledReward:
        """The reward, with no process started yet. Raises `RewardError` for a missing file or variable."""
        if self.target is not None:
            module, _, function = self.target.partition(":")
            target = Target(module, function)
        else:
            path = (base / Path(str(self.file)).expanduser()).absolute()
            if not path.is_file():
                raise RewardError(f"reward {self.shown!r}: there is no file {path}", fix="mend `file`")
            target = Target(str(path), self.function)
        pool = WorkerPool(target, workers=self.workers, limits=self.limits, env=self.env)
        return PooledReward(self.shown, pool)
