"""The reward of a run, from what its file names and what was passed from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from groupwise.errors import RewardError
from groupwise.rewards.base import RewardSettings
from groupwise.rewards.code.reward import Code
from groupwise.rewards.combine import Combined, Part
from groupwise.rewards.contract import Reward
from groupwise.rewards.exact import Exact
from groupwise.rewards.function import Function
from groupwise.rewards.in_process import InProcess
from groupwise.rewards.learned.judge import Judge
from groupwise.rewards.learned.process import Process
from groupwise.rewards.learned.process_rule import ProcessRule
from groupwise.rewards.learned.reward_model import RewardModel
from groupwise.rewards.math.reward import Math
from groupwise.rewards.number import Number
from groupwise.rewards.pooled import PooledReward
from groupwise.rewards.text.constraints import Constraints
from groupwise.rewards.text.format import Format
from groupwise.rewards.text.language import Language
from groupwise.rewards.text.length import Length
from groupwise.rewards.text.overlong import Overlong
from groupwise.rewards.text.repetition import Repetition
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import label_of, target_of

REWARDS: dict[str, type[RewardSettings]] = {
    "exact": Exact,
    "number": Number,
    "math": Math,
    "code": Code,
    "format": Format,
    "constraints": Constraints,
    "length": Length,
    "overlong": Overlong,
    "repetition": Repetition,
    "language": Language,
    "reward_model": RewardModel,
    "process": Process,
    "process_rule": ProcessRule,
    "judge": Judge,
    "function": Function,
}
"""Every reward by the name that a run file uses. A new one is a file in this folder and a word here and below."""

AnyReward = Annotated[
    Exact
    | Number
    | Math
    | Code
    | Format
    | Constraints
    | Length
    | Overlong
    | Repetition
    | Language
    | RewardModel
    | Process
    | ProcessRule
    | Judge
    | Function,
    Field(discriminator="name"),
]


def build_reward(
    rewards: Sequence[RewardSettings], *, base: Path = Path(), functions: Sequence[Callable[..., Any]] = ()
) -> Combined:
    """All of them as one weighted sum; `base` is the folder that relative paths start from.

    `functions` are plain reward functions passed from Python, each with weight 1. One that a worker
    process can load runs there, any other in this process, with a warning. Raises `RewardError`. No process
    is started yet.
    """
    parts = [Part.of(settings, base) for settings in rewards]
    for function in functions:
        parts.append(Part(label_of(function), 1.0, _from_function(function)))
    labels = [part.label for part in parts]
    if not parts:
        raise RewardError("the run has no reward", fix="add a [[rewards]] table, or a task that has its own")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise RewardError(f"two rewards are called {twice!r}", fix="give one a `label`, or its function a name")
    return Combined(parts)


def _from_function(function: Callable[..., Any]) -> Reward:
    target = target_of(function)
    name = label_of(function)
    if target is None:
        return InProcess(function, name)
    return PooledReward(name, WorkerPool(target, workers=2))
