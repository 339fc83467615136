"""The functions that `evaluating` knows, each bounded before it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from groupwise.rewards.math.bounds import LARGEST_ANGLE, MOST_TERMS, TooLarge, Undefined
from groupwise.rewards.math.tree import Node, names, num, sym

if TYPE_CHECKING:
    from groupwise.rewards.math.evaluating import Evaluator

_NAMES = {
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc"},
    **{"Re": "re", "Im": "im"},
}
"""What mpmath calls them, where that differs."""
_DIRECT = names("sin cos tan cot sec csc sinh cosh tanh coth asin acos atan acot asec acsc re im arg")
"""Functions that mpmath computes."""


def apply(evaluator: Evaluator, node: Node) -> Any:
    """The value of a call. Raises `TooLarge`, `Undefined`."""
    name = node.name
    if name in ("sum", "prod"):
        return _big(evaluator, node)
    if name == "exp":
        return evaluator.power(evaluator.value(sym("e")), evaluator.value(node.args[0]))
    if name == "sqrt":
        return evaluator.power(evaluator.value(node.args[0]), evaluator.value(num(Fraction(1, 2))))
    args = [evaluator.value(arg) for arg in node.args]
    handler = _HANDLERS.get(name)
    try:
        if handler is not None:
            return handler(evaluator, *args)
        name = _NAMES.get(name, name)
        if name not in _DIRECT or len(args) != 1:
            raise Undefined
        value = evaluator.inexact(args[0])
        if abs(evaluator.mp.mag(value) if value else 0) > LARGEST_ANGLE:
            raise TooLarge
        return getattr(evaluator.mp, name)(value)
    except (ZeroDivisionError, ValueError, TypeError, OverflowError):  # a pole, or the wrong number of arguments
        raise Undefined from None


def _big(evaluator: Evaluator, node: Node) -> Any:
    body, variable, low, high = node.args
    start, stop = evaluator.value(low), evaluator.value(high)
    if not all(isinstance(end, Fraction) and end.denominator == 1 for end in (start, stop)):
        raise Undefined
    if stop - start > MOST_TERMS:
        raise TooLarge
    outer = evaluator.point
    terms = []
    for value in range(int(start), int(stop) + 1):
        evaluator.point = {**outer, variable.name: Fraction(value)}
        terms.append(evaluator.value(body))
    evaluator.point = outer
    return evaluator.add(terms) if node.name == "sum" else evaluator.multiply(terms)


def _log(evaluator: Evaluator, value: Any, base: Any = None) -> Any:
    if value == 0 or base is not None and base in (0, 1):
        raise Undefined
    if isinstance(value, Fraction) and isinstance(base, Fraction) and value > 0 and base > 1:
        guess = Fraction(round(math.log(value) / math.log(base)))
        if abs(guess) < 10_000 and base**guess.numerator == value:
            return guess
    log = evaluator.mp.log(evaluator.inexact(value))
    return log if base is None else log / evaluator.mp.log(evaluator.inexact(base))


def _log_ten(evaluator: Evaluator, value: Any) -> Any:
    return _log(evaluator, value, Fraction(10))


def _factorial(evaluator: Evaluator, value: Any) -> Any:
    if isinstance(value, Fraction) and value.denominator == 1:
        if value < 0:
            raise Undefined
        if value <= 3000:
            return Fraction(math.factorial(int(value)))
    number = evaluator.inexact(value)
    evaluator.bounded(abs(number) * 60)
    return evaluator.mp.gamma(number + 1)


def _binomial(evaluator: Evaluator, n: Any, k: Any) -> Any:
    if all(isinstance(value, Fraction) and value.denominator == 1 and 0 <= value <= 20_000 for value in (n, k)):
        return Fraction(math.comb(int(n), int(k)))
    top, bottom = evaluator.inexact(n), evaluator.inexact(k)
    evaluator.bounded((abs(top) + abs(bottom)) * 60)
    gamma = evaluator.mp.loggamma
    return evaluator.mp.exp(gamma(top + 1) - gamma(bottom + 1) - gamma(top - bottom + 1))


def _root(evaluator: Evaluator, value: Any, degree: Any) -> Any:
    """Of a negative number with an odd degree, the real one."""
    if degree == 0:
        raise Undefined
    odd = isinstance(degree, Fraction) and degree.denominator == 1 and degree % 2 == 1
    inverse = evaluator.divide(Fraction(1), degree)
    if odd and evaluator.real(value) and evaluator.inexact(value).real < 0:
        return -evaluator.power(-value, inverse)
    return evaluator.power(value, inverse)


def _cube_root(evaluator: Evaluator, value: Any) -> Any:
    return _root(evaluator, value, Fraction(3))


def _absolute(evaluator: Evaluator, value: Any) -> Any:
    return abs(value)


def _rounded(function: Callable[[Fraction], int]) -> Callable[..., Any]:
    def rounded(evaluator: Evaluator, value: Any) -> Any:
        if isinstance(value, Fraction):
            return Fraction(function(value))
        if not evaluator.real(value):
            raise Undefined
        evaluator.bounded(abs(value))
        return Fraction(
            int(evaluator.mp.floor(value.real) if function is math.floor else evaluator.mp.ceil(value.real))
        )

    return rounded


def _whole(function: Callable[..., int]) -> Callable[..., Any]:
    def whole(evaluator: Evaluator, *values: Any) -> Any:
        if not all(isinstance(value, Fraction) and value.denominator == 1 for value in values):
            raise Undefined
        return Fraction(function(*map(int, values)))

    return whole


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda evaluator, *values: function(*values) if len(values) > 1 else values[0]


_HANDLERS: dict[str, Callable[..., Any]] = {
    "log": _log,
    "ln": _log,
    "lg": _log_ten,
    "factorial": _factorial,
    "binom": _binomial,
    "abs": _absolute,
    "root": _root,
    "cbrt": _cube_root,
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "max": _extreme(max),
    "min": _extreme(min),
}
