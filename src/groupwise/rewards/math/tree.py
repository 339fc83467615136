"""The tree that answers are read into: one frozen node type, whose `head` says what it is.

| head | args | name | number |
|---|---|---|---|
| num | | the digits as written | the exact value |
| sym | | a variable, or a constant (`pi`, `e`, `i`) | |
| add, mul, pow, mod | operands | | |
| call | arguments | the function: `sqrt`, `sin`, `log`, `binom`, `factorial`, `abs`, ... | |
| pm | operand | `+-`, or `-+` for the opposite sign | |
| inf, empty, reals, dots | | | |
| unit | | the unit as written (`cm`, `$`, `%`, `apples`) | |
| base | | the digits | the base |
| time | | `am`, `pm` or nothing | minutes since midnight |
| bracket | members | the two brackets: `()`, `[)`, ... | |
| set, list, ratio | members | | |
| such | variable, condition | | |
| relation | both sides, or all of a chain | the signs between them, by spaces | |
| union, both, without | sets | | |
| matrix, det | rows | | |
| row | entries | | |
| words | | a text without mathematics | |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Node:
    """See the module's docstring."""

    head: str
    args: tuple[Node, ...] = ()
    name: str = ""
    number: Fraction | None = None


class Unreadable(Exception):
    """The text isn't understood whole; the message says what was met."""


def num(value: int | Fraction, written: str = "") -> Node:
    """An exact number."""
    return Node("num", name=written, number=Fraction(value))


def sym(name: str) -> Node:
    """A variable or a constant."""
    return Node("sym", name=name)


def call(name: str, *args: Node) -> Node:
    """A function of its arguments."""
    return Node("call", args, name)


def add(*args: Node) -> Node:
    """Their sum; one alone is itself."""
    return args[0] if len(args) == 1 else Node("add", args)


def mul(*args: Node) -> Node:
    """Their product; one alone is itself."""
    return args[0] if len(args) == 1 else Node("mul", args)


def power(base: Node, exponent: Node) -> Node:
    """base ^ exponent."""
    return Node("pow", (base, exponent))


def neg(node: Node) -> Node:
    """-node; the sign of a number goes into it."""
    if node.head == "num" and node.number is not None:
        return num(-node.number, "-" + node.name if node.name else "")
    return mul(num(-1), node)


def over(top: Node, bottom: Node) -> Node:
    """top / bottom."""
    return mul(top, power(bottom, num(-1)))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.args)


def depth(node: Node) -> int:
    """Levels of the tree."""
    level, levels = [node], 0
    while level:
        level, levels = [arg for part in level for arg in part.args], levels + 1
    return levels


CONSTANTS = {"pi", "e", "i"}
"""Symbols that stand for a number."""


def variables(*nodes: Node) -> list[str]:
    """The free symbols, sorted."""
    found = {part.name for node in nodes for part in walk(node) if part.head == "sym"}
    return sorted(found - CONSTANTS)


def has(node: Node, *heads: str) -> bool:
    """Whether a node of one of these kinds is in it."""
    return any(part.head in heads for part in walk(node))


def substituted(node: Node, name: str, value: Node) -> Node:
    """The tree with a variable replaced."""
    if node.head == "sym" and node.name == name:
        return value
    return replace(node, args=tuple(substituted(arg, name, value) for arg in node.args)) if node.args else node


def names(text: str) -> frozenset[str]:
    """The words of a text: how this package writes its vocabularies."""
    return frozenset(text.split())
