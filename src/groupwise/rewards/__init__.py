"""Rewards: what scores a completion as right, wrong, or not scored. Each is usable alone:

    from groupwise.rewards import math, number
    number.grade("6 * 7 = 42, so the answer is 42.", "42")          # Score(value=1.0, correct=True, ...)
    math.grade("Hence \\\\boxed{\\\\frac{2}{4}}.", "1/2")               # the same, in a worker process within limits

| rooms and files | what decides |
|---|---|
| `exact`, `number` | a column of the data row, compared as text or as a number |
| `math` | a column, compared as mathematics |
| `code` | tests, run against the program in a sandbox |
| `text` | the form of the text: format, constraints, length, repetition, language |
| `learned` | reward models, process reward models, judges |
| `function` | a function of the user's |

`contract` says what a reward is, `workers` runs what is unbounded or foreign in processes that can be killed,
`combine` makes one reward of several, and `build` the one that a run uses. Settings objects are found here too, but
loaded only when asked for: worker processes import this package and must start fast.
"""

from typing import TYPE_CHECKING, Any

from groupwise.rewards.contract import Record, Reward, Unavailable, group_reward
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
    "Unavailable",
    "build_reward",
    "group_reward",
]

_LOADED_WHEN_ASKED = ("REWARDS", "AnyReward", "Exact", "Function", "Number", "build_reward")


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_ASKED:
        from groupwise.rewards import build

        return getattr(build, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
