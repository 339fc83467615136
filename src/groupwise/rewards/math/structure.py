"""Trees in one order, so that what is too large to compute can still be seen to be written the same."""

from __future__ import annotations

from fractions import Fraction

from groupwise.rewards.math.evaluating import exact
from groupwise.rewards.math.tree import Node, num, variables, walk

_UNORDERED = {"add", "mul", "set"}
_LONGEST = 4000
"""Nodes of a tree that is put in order."""


def same_structure(left: Node, right: Node) -> bool:
    """Whether both are the same but for the order of sums and products and for what can be computed exactly."""
    if left == right:
        return True
    if sum(1 for _ in walk(left)) + sum(1 for _ in walk(right)) > _LONGEST:
        return False
    return _folded(left) == _folded(right)


def _folded(node: Node) -> Node:
    if node.head == "num":
        return num(node.number or 0)
    if node.head in ("add", "mul", "pow", "call", "mod") and not variables(node):
        value = exact(node)
        if value is not None:
            return num(value)
    args = [_folded(arg) for arg in node.args]
    if node.head in ("add", "mul"):
        args = [inner for arg in args for inner in (arg.args if arg.head == node.head else (arg,))]
        args = _gathered(node.head, args)
    if node.head in _UNORDERED:
        args.sort(key=repr)
    return Node(node.head, tuple(args), node.name)


def _gathered(head: str, args: list[Node]) -> list[Node]:
    """The numbers among the operands as one."""
    total = Fraction(head == "mul")
    rest = []
    for arg in args:
        if (
            arg.head == "num"
            and arg.number is not None
            and max(arg.number.numerator.bit_length(), arg.number.denominator.bit_length()) < 10_000
        ):
            total = total * arg.number if head == "mul" else total + arg.number
        else:
            rest.append(arg)
    return [*rest, *([] if total == (head == "mul") else [num(total)])]
