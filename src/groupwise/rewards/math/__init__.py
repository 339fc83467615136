"""The maths verifier: is the answer of a completion the gold, mathematically?

    from groupwise.rewards import math
    math.grade("... so it is $\\\\boxed{\\\\frac{1}{2}}$.", "0.5")       # Score(value=1.0, correct=True, reason=...)

From text to verdict: `extraction` (with `boxes`) finds the answer; `reading` reads it into the tree of `tree`, by
`tokens` and `parsing` (with `cursor`, `parsing_words`, `parsing_atoms`, `numerals`), and knows what is text by `words`;
`comparing` and `comparing_values` compare, with `equality`, `evaluating`, `functions` and `bounds` for values, `units`
and `quantities` for units, `regions` for sets of real numbers, `names`, `matrices` and `structure` for how things are
written. `grading` puts this together under a `policy`; `verifier` and `reward` run it in worker processes within hard
limits. No text is ever evaluated as a program.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupwise.rewards.math.policy import Policy
    from groupwise.rewards.math.reward import Math
    from groupwise.rewards.math.verifier import Verifier, grade

__all__ = ["Math", "Policy", "Verifier", "grade"]

_PLACES = {"Math": "reward", "Policy": "policy", "Verifier": "verifier", "grade": "verifier"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
