"""Rewards: what scores a completion as right, wrong, or not scored.

    from groupwise.rewards import number
    number.grade("6 * 7 = 42, so the answer is 42.", "42")          # Score(value=1.0, correct=True, ...)

`exact` and `number` compare with a column of the data row; `function` calls a function of the user's in
worker processes. `contract` says what a reward is; `build` makes the one that a run uses. The settings
objects are found here too, but loaded only when asked for: worker processes import this package and must
start fast.
"""

from typing import TYPE_CHECKING, Any

from groupwise.rewards.contract import Record, Reward, group_reward
from groupwise.types import Score

if TYPE_CHECKING:
    from groupwise.rewards.build import REWARDS, AnyReward, build_reward
    from groupwise.rewards.exact import Exact
    from groupwise.rewards.function import Function
    from groupwise.rewards.number import Number

__all__ = [
    "REWARDS",
    "AnyReward",
    "Exact",
    "Function",
    "Number",
    "Record",
    "Reward",
    "Score",
    "build_reward",
    "group_reward",
]

_LOADED_WHEN_ASKED = ("REWARDS", "AnyReward", "Exact", "Function", "Number", "build_reward")


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_ASKED:
        from groupwise.rewards import build

        return getattr(build, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
