"""What stands beside the mathematics of an answer: names (`x = 5`), chains of equal things, plus-minus signs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from groupwise.rewards.math.equality import equal
from groupwise.rewards.math.evaluating import number_of
from groupwise.rewards.math.tree import CONSTANTS, Node, add, neg, substituted, sym, variables, walk

_APPLIED = re.compile(r"([^()]+)\(sym:([^():]+):0\)")
MOST_SIGNS = 4
"""Plus-minus signs in one expression."""


class Contradiction(Exception):
    """It says that two different things are equal: 7 = 8."""


def is_name(node: Node) -> bool:
    """Whether it names a thing and computes nothing: a symbol, f(x), a tuple or ratio of symbols, |AB|, AB, a noun."""
    if node.head == "sym":
        return node.name not in CONSTANTS
    if node.head == "mul":
        if len(node.args) == 2 and node.args[0].head == "sym" and _is_no_factor(node.args[1]):
            return True
        return all(arg.head == "sym" and arg.name[:1].isupper() for arg in node.args) or (
            len(node.args) == 2
            and node.args[0].head == "sym"
            and node.args[0].name.isupper()
            and node.args[1].head == "sym"
        )
    if node.head == "call":
        inside = node.args[0]
        return node.name == "abs" and is_name(inside) and (inside.head == "mul" or inside.name.isupper())
    return node.head == "unit" or node.head in ("bracket", "ratio") and all(is_name(arg) for arg in node.args)


def _is_no_factor(node: Node) -> bool:
    """Whether what stands behind a letter is no factor: P(X = 2), n(A \\cap B), m\\angle A."""
    return node.head in ("relation", "both", "union", "without") or node.name.startswith("angle ")


def split_name(node: Node) -> tuple[Node, Node] | None:
    """The name and the value of `x = 5` or `x in S`; None for anything else."""
    if node.head != "relation" or len(node.args) != 2:
        return None
    left, right = node.args
    if node.name in ("=", "in", "~") and is_name(left) and left not in set(walk(right)):
        return left, right
    if node.name in ("=", "~") and is_name(right) and not variables(left):
        return right, left
    return None


def plain_values(node: Node) -> list[Node]:
    """A chain such as 20 + 0 = 20 as its last member, and x = 5 + 6 = 11 as x = 11. Raises `Contradiction`.

    4/9 = 0.444 with a sign for "about" between is either side, if the one is the other rounded.
    """
    signs = node.name.split() if node.head == "relation" else []
    if signs[-1:] != ["~"] or len(node.args) < 2 + is_name(node.args[0]):
        return [_last(node)]
    exact_side, rounded = node.args[-2:]
    apart = number_of(add(exact_side, neg(rounded)))
    decimals = len(rounded.name.partition(".")[2])
    if rounded.head != "num" or apart is None or abs(apart) * 10**decimals >= 1:
        return [_last(node)]
    shorter = Node("relation", node.args[:-1], " ".join(signs[:-1]))
    return [_last(node), *(plain_values(shorter) if len(shorter.args) > 1 else shorter.args)]


def _last(node: Node) -> Node:
    if node.head != "relation" or set(node.name.split()) - {"=", "~"}:
        return node
    named = is_name(node.args[0])
    sides = node.args[1:] if named else node.args
    if not named and (any(variables(side) for side in sides) or len(sides) < 2):
        return node if len(sides) < 3 else Node("relation", (sides[0], sides[-1]), "=")
    for one, other, sign in zip(sides, sides[1:], node.name.split()[-len(sides) + 1 :], strict=False):
        if sign == "=" and equal(one, other) is False:
            raise Contradiction
    return Node("relation", (node.args[0], sides[-1]), node.name.split()[0]) if named else sides[-1]


def as_members(node: Node) -> list[Node] | None:
    """The members of a list or set, plus-minus signs written out; one that isn't a collection is its only member."""
    if node.head in ("list", "set"):
        args = _without_name(node.args)
    elif node.head == "such":
        condition = node.args[1]
        args = _without_name(condition.args if condition.head == "list" else (condition,))
    else:
        args = [node]
    members: list[Node] = []
    for arg in args:
        written_out = expanded(arg)
        if written_out is None:
            return None
        members.extend(written_out)
    return members


def without_domain(node: Node) -> Node:
    """pi + 2 pi k, k in Z without what says that k is whole."""
    if node.head != "list" or len(node.args) < 2 or node.args[-1].head != "relation" or node.args[-1].name != "in":
        return node
    name, domain = node.args[-1].args
    others = node.args[:-1]
    if not domain.name.startswith("mathbb ") or name.name not in variables(*others):
        return node
    return others[0] if len(others) == 1 else Node("list", others, node.name)


def single_name(node: Node) -> Node | None:
    """The one name in x = 1, 2 and in x = 1, x = 2."""
    args = node.args if node.head == "list" else (node,)
    named = {pair[0] for pair in map(split_name, args) if pair is not None}
    return named.pop() if len(named) == 1 else None


def _without_name(args: tuple[Node, ...]) -> list[Node]:
    """x = 1, 2 and x = 1, x = 2 as 1, 2."""
    named = [split_name(arg) for arg in args]
    names = {pair[0] for pair in named if pair is not None}
    if len(names) == 1 and named[0] is not None:
        return [arg if pair is None else pair[1] for arg, pair in zip(args, named, strict=True)]
    return list(args)


def expanded(node: Node) -> list[Node] | None:
    """An expression with plus-minus signs as those that it stands for; None for too many.

    With a minus-plus beside it, upper signs belong together; else each sign is free.
    """
    pair = split_name(node)
    if pair is not None and any(part.head == "pm" for part in walk(pair[1])):
        values = expanded(pair[1])
        return None if values is None else [Node("relation", (pair[0], value), "=") for value in values]
    signs = [part for part in walk(node) if part.head == "pm"]
    if len(signs) > MOST_SIGNS:
        return None
    together = any(part.name == "-+" for part in signs)
    choices = product((1, -1), repeat=1 if together and signs else len(signs))
    return [_signed(node, iter(choice * (len(signs) if together else 1))) for choice in choices]


def _signed(node: Node, signs: Iterator[int]) -> Node:
    if node.head == "pm":
        sign = next(signs) * (1 if node.name == "+-" else -1)
        inner = _signed(node.args[0], signs)
        return inner if sign > 0 else neg(inner)
    if not node.args:
        return node
    return Node(node.head, tuple(_signed(arg, signs) for arg in node.args), node.name, node.number)


def renamed_argument(name: Node, other: Node, value: Node) -> Node | None:
    """The value of g(t) in terms of x, where `name` is g(x) and `other` g(t); None where they name other things."""
    ours, theirs = _APPLIED.fullmatch(name.name), _APPLIED.fullmatch(other.name)
    if ours is None or theirs is None or ours[1] != theirs[1] or ours[2] in variables(value):
        return None
    return substituted(value, theirs[2], sym(ours[2]))


def unnamed(node: Node) -> Node:
    """P(4, -9) as the tuple, and [x = 2, y = 3] as the list."""
    if node.head == "bracket" and len(node.args) > 1 and all(split_name(arg) for arg in node.args):
        return Node("list", node.args)
    if node.head == "mul" and len(node.args) == 2 and node.args[1].head == "bracket":
        name = node.args[0]
        return node.args[1] if name.head == "sym" and name.name.isupper() else node
    return node


def assignments(node: Node, other: Node) -> Node:
    """(a, b) = (1, 5), beside a list of assignments, as a = 1, b = 5."""
    pair, other_pair = split_name(node), split_name(other)
    assigned = other.head == "list" and all(arg.head == "relation" for arg in other.args)
    renamed = (
        other_pair is not None and pair is not None and other_pair[0] != pair[0] and other_pair[0].head == "bracket"
    )
    if pair is None or not (assigned or renamed):
        return node
    name, value = pair
    if name.head != "bracket" or value.head != "bracket" or len(name.args) != len(value.args):
        return node
    return Node("list", tuple(Node("relation", both, "=") for both in zip(name.args, value.args, strict=True)))
