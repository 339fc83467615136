"""Sets of real numbers as intervals: from brackets, unions, inequalities and set-builder notation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from groupwise.rewards.math.equality import equal
from groupwise.rewards.math.evaluating import exact, number_of
from groupwise.rewards.math.tree import Node, add, has, mul, neg, num, over, substituted, variables

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}
PLUS, MINUS = Node("inf"), neg(Node("inf"))


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, with or without its ends; the places are their rounded values, for the order only."""

    low: Node
    high: Node
    with_low: bool
    with_high: bool

    @property
    def start(self) -> float:
        """The place of `low`."""
        return place(self.low)

    @property
    def end(self) -> float:
        """The place of `high`."""
        return place(self.high)


class NoRegion(Exception):
    """It isn't a set of real numbers that is known here."""


def place(node: Node) -> float:
    """Where on the line a bound lies. Raises `NoRegion`."""
    if node.head == "inf":
        return math.inf
    if node.head == "mul" and node.args[-1].head == "inf":
        return -math.inf if (number_of(mul(*node.args[:-1])) or 0) < 0 else math.inf
    value = None if has(node, "inf", "unit") else number_of(node)
    if value is None:
        raise NoRegion
    try:
        return float(value)
    except OverflowError:
        raise NoRegion from None


def same_region(left: list[Interval], right: list[Interval]) -> bool:
    """Whether two merged regions are the same set."""
    return len(left) == len(right) and all(
        (a.with_low, a.with_high) == (b.with_low, b.with_high)
        and _same_bound(a.low, b.low)
        and _same_bound(a.high, b.high)
        for a, b in zip(left, right, strict=True)
    )


def _same_bound(a: Node, b: Node) -> bool:
    if math.isinf(place(a)) or math.isinf(place(b)):
        return place(a) == place(b)
    return equal(a, b) is True


def region(node: Node) -> list[Interval]:
    """The set as merged intervals from left to right. Raises `NoRegion`."""
    head = node.head
    if head == "reals":
        return [Interval(MINUS, PLUS, False, False)]
    if head == "empty":
        return []
    if head == "bracket":
        return _from_bracket(node)
    if head == "union":
        return _merged([part for arg in node.args for part in region(arg)])
    if head == "both":
        return _intersection(region(node.args[0]), region(node.args[1]))
    if head == "without":
        return _intersection(region(node.args[0]), _complement(region(node.args[1])))
    if head == "set":
        return _merged([Interval(arg, arg, True, True) for arg in node.args])
    if head == "such":
        return region(node.args[1])
    if head == "relation":
        return _from_relation(node)
    if head == "list":
        parts = [region(arg) for arg in node.args if arg.head == "relation"]
        if len(parts) != len(node.args) or len(variables(node)) != 1:
            raise NoRegion
        if node.name == "or":
            return _merged([part for one in parts for part in one])
        result = parts[0]
        for part in parts[1:]:
            result = _intersection(result, part)
        return result
    raise NoRegion


def _from_bracket(node: Node) -> list[Interval]:
    if len(node.args) != 2:
        raise NoRegion
    one = Interval(*node.args, node.name[0] == "[", node.name[1] == "]")
    if one.start > one.end or one.with_low and math.isinf(one.start) or one.with_high and math.isinf(one.end):
        raise NoRegion
    return [one]


def _from_relation(node: Node) -> list[Interval]:
    signs = node.name.split()
    if signs == ["in"] and node.args[0].head == "sym":
        return region(node.args[1])
    names = variables(node)
    if len(names) != 1 or any(sign not in _FLIPPED for sign in signs):
        raise NoRegion
    result = [Interval(MINUS, PLUS, False, False)]
    for left, sign, right in zip(node.args, signs, node.args[1:], strict=False):
        result = _intersection(result, _half(left, sign, right, names[0]))
    return result


def _half(left: Node, sign: str, right: Node, name: str) -> list[Interval]:
    """The solutions of one linear inequality, which may hold an absolute value alone on its left side."""
    if right.head == "call" and right.name == "abs" and not variables(left):
        left, sign, right = right, _FLIPPED[sign], left
    if left.head == "call" and left.name == "abs" and not variables(right):
        inner = left.args[0]
        one, other = _half(inner, sign, right, name), _half(neg(inner), sign, right, name)
        return _intersection(one, other) if sign[0] == "<" else _merged(one + other)
    bound, sign = _solved(left, sign, right, name)
    place(bound)
    return {
        "<": [Interval(MINUS, bound, False, False)],
        "<=": [Interval(MINUS, bound, False, True)],
        ">": [Interval(bound, PLUS, False, False)],
        ">=": [Interval(bound, PLUS, True, False)],
        "=": [Interval(bound, bound, True, True)],
        "!=": [Interval(MINUS, bound, False, False), Interval(bound, PLUS, False, False)],
    }[sign]


def _solved(left: Node, sign: str, right: Node, name: str) -> tuple[Node, str]:
    """The bound of the variable, and on which side of it the solutions lie."""
    if left.head == "sym" and left.name == name and not variables(right):
        return right, sign
    if right.head == "sym" and right.name == name and not variables(left):
        return left, _FLIPPED[sign]
    difference = add(left, neg(right))
    at = [substituted(difference, name, num(value)) for value in (0, 1, 2)]
    slope = exact(add(at[1], neg(at[0])))
    if not slope or exact(add(at[2], neg(at[1]))) != slope or has(difference, "pm"):
        raise NoRegion
    return over(neg(at[0]), num(slope)), sign if slope > 0 else _FLIPPED[sign]


def _complement(parts: list[Interval]) -> list[Interval]:
    gaps, low, with_low = [], MINUS, False
    for part in parts:
        gaps.append(Interval(low, part.low, with_low, not part.with_low))
        low, with_low = part.high, not part.with_high
    gaps.append(Interval(low, PLUS, with_low, False))
    return [gap for gap in gaps if _holds_something(gap)]


def _holds_something(one: Interval) -> bool:
    return one.start < one.end or one.start == one.end and one.with_low and one.with_high and not math.isinf(one.start)


def _intersection(left: list[Interval], right: list[Interval]) -> list[Interval]:
    common = []
    for a in left:
        for b in right:
            low = max((a, b), key=lambda one: (one.start, not one.with_low))
            high = min((a, b), key=lambda one: (one.end, one.with_high))
            common.append(Interval(low.low, high.high, low.with_low, high.with_high))
    return _merged([one for one in common if _holds_something(one)])


def _merged(parts: list[Interval]) -> list[Interval]:
    result: list[Interval] = []
    for part in sorted(parts, key=lambda one: (one.start, not one.with_low)):
        last = result[-1] if result else None
        if last is None or part.start > last.end or part.start == last.end and not (part.with_low or last.with_high):
            result.append(part)
        elif (part.end, part.with_high) > (last.end, last.with_high):
            result[-1] = Interval(last.low, part.high, last.with_low, part.with_high)
    return result
