"""The maths verifier: is the answer of a completion the gold, mathematically?

    from groupwise.rewards import math
    math.grade("... so it is $\\\\boxed{\\\\frac{1}{2}}$.", "0.5")       # Score(value=1.0, correct=True, reason=...)

From text to verdict: `extraction` finds the answer, `tokens`, `parsing`, `parsing_atoms` and `numerals` read it into the
tree of `tree`; `words`, `units` and `quantities` know what isn't mathematics; `comparing` compares, with `evaluating`
and `functions` for values, `regions` for sets of real numbers, `names` and `structure` for how things are written.
`grading` puts this together; `verifier` and `reward` run it in worker processes within hard limits. No text is ever
evaluated as a program.
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
