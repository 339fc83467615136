"""Whether two expressions have the same value, wherever they have one.

    equal(a, b)       True, False, or None: too large, or nothing that has a value

Constants are compared in as many bits as the numbers met call for, so that two values are told apart however near they
are: two different numbers of the sizes that were met can't agree in all of those bits. Variables take several values,
drawn once, both positive and negative. Only points at which both sides are real count, unless no point is such a one:
sqrt(1/n) equals 1/sqrt(n), but sqrt(x^2) isn't x.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction

from groupwise.rewards.math.bounds import MOST_BITS, TooLarge, Undefined
from groupwise.rewards.math.evaluating import Evaluator, Value, number_of
from groupwise.rewards.math.tree import Node, variables, walk

POINTS = 6
"""Values that each variable takes."""
_SIGNS = (1, 1, -1, 1, -1, -1)


def equal(left: Node, right: Node) -> bool | None:
    """Whether both have the same value, wherever both are defined. None where that can't be decided."""
    if left.head == right.head == "num":
        return left.number == right.number
    names = variables(left, right)
    real, other = 0, 0
    for point in _points(names, _of_whole_numbers(left, right)):
        try:
            same, is_real = _same_at(left, right, point)
        except Undefined:
            continue
        except TooLarge:
            return None
        if not is_real and names and not _has_symbol(left, right, "i"):
            other += 1 if same else -POINTS
        elif not same:
            return False
        else:
            real += 1
    if real:
        return True
    return None if other == 0 else other > 0


def proportional(left: Node, right: Node, *, positive: bool = False) -> bool | None:
    """Whether left = c * right with one constant c other than zero (with `positive`, above zero)."""
    names = variables(left, right)
    first: Value = None
    seen = 0
    for point in _points(names, _of_whole_numbers(left, right)):
        try:
            bits = _bits_needed(left, right, point)
            one = Evaluator(bits, point)
            a, b = one.value(left), one.value(right)
        except Undefined:
            continue
        except TooLarge:
            return None
        if not one.real(a) or not one.real(b) or one.is_zero(a) and one.is_zero(b):
            continue
        if one.is_zero(a) or one.is_zero(b):
            return False
        ratio = one.divide(a, b)
        first = ratio if first is None else first
        if positive and ratio < 0 or not one.is_zero(one.subtract(first, ratio)):
            return False
        seen += 1
    return True if seen >= 2 or seen and not names else None


def _has_symbol(left: Node, right: Node, name: str) -> bool:
    """Whether a symbol is in either."""
    return any(part.head == "sym" and part.name == name for node in (left, right) for part in walk(node))


def _of_whole_numbers(left: Node, right: Node) -> bool:
    """Whether variables are best taken as whole: there are powers of negative numbers, floors or remainders."""
    for node in (left, right):
        for part in walk(node):
            if part.head == "mod" or part.head == "call" and part.name in ("floor", "ceil", "gcd", "lcm", "binom"):
                return True
            if part.head == "pow" and variables(part.args[1]) and not variables(part.args[0]):
                base = number_of(part.args[0])
                if base is not None and base < 0:
                    return True
    return False


def _points(names: list[str], whole: bool) -> list[dict[str, Fraction]]:
    if not names:
        return [{}]
    draw = random.Random(20240229)
    if whole:
        return [{name: Fraction(draw.randrange(2, 30)) for name in names} for _ in range(POINTS)]
    points = []
    for number, sign in enumerate(_SIGNS):
        mixed = -1 if number in (3, 5) else 1
        sizes = [Fraction(draw.randrange(300, 3000), 1009) for _ in names]
        points.append({name: sign * mixed**place * sizes[place] for place, name in enumerate(names)})
    return points


def _same_at(left: Node, right: Node, point: Mapping[str, Fraction]) -> tuple[bool, bool]:
    """Whether both values are the same at a point, and whether they are real."""
    evaluator = Evaluator(200, point)
    a, b = evaluator.value(left), evaluator.value(right)
    is_real = evaluator.real(a) and evaluator.real(b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b, True
    if not evaluator.is_zero(evaluator.subtract(a, b)):
        return False, is_real
    evaluator = Evaluator(_bits_needed(left, right, point), point)
    return evaluator.is_zero(evaluator.subtract(evaluator.value(left), evaluator.value(right))), is_real


def _bits_needed(left: Node, right: Node, point: Mapping[str, Fraction]) -> int:
    evaluator = Evaluator(200, point)
    evaluator.value(left), evaluator.value(right)
    bits = 400 + 4 * evaluator.reach
    if bits > MOST_BITS:
        raise TooLarge
    return bits
