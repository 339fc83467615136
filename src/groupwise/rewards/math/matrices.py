"""Matrices in the forms that one is written in: with a factor in front, transposed, by its rows, by its symbol."""

from __future__ import annotations

from groupwise.rewards.math.tree import Node, mul, num


def as_matrix(node: Node) -> Node:
    r"""\frac{1}{2} times a matrix, or a row with ^T, as one matrix; anything else as it is."""
    if node.head == "mul" and [factor.head == "matrix" for factor in node.args].count(True) == 1:
        matrix = next(factor for factor in node.args if factor.head == "matrix")
        others = [factor for factor in node.args if factor is not matrix]
        return _of([[mul(*others, entry) for entry in row.args] for row in matrix.args])
    if node.head == "pow" and node.args[0].head == "matrix" and node.args[1].name == "T":
        rows = [row.args for row in node.args[0].args]
        return _of(list(map(list, zip(*rows, strict=True)))) if len(set(map(len, rows))) == 1 else node
    return node


def identity(size: int) -> Node:
    """The identity of so many rows."""
    return _of([[num(int(row == column)) for column in range(size)] for row in range(size)])


def by_rows(node: Node) -> Node | None:
    """((1, 2), (3, 4)) as a matrix; None for what isn't a bracket of brackets."""
    if node.head != "bracket" or any(arg.head != "bracket" for arg in node.args):
        return None
    return Node("matrix", tuple(Node("row", arg.args) for arg in node.args))


def _of(rows: list[list[Node]]) -> Node:
    return Node("matrix", tuple(Node("row", tuple(row)) for row in rows))
