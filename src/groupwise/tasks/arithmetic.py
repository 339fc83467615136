"""Arithmetic in answers, read and worked out without running any of it as code."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

LONGEST = 200
"""Characters; longer answers are not read."""
LARGEST = 10**12
"""Results beyond this are given up."""

OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

SYMBOLIC_TOKENS = re.compile(r"\s*(?:\d{1,6}(?:\.\d{1,6})?|[A-Za-z]+|\*\*|[-+*/()])")
"""What a symbolic answer may be made of."""
FUNCTIONS = {"sin", "cos", "tan", "exp", "log", "ln", "sqrt", "asin", "acos", "atan", "sinh", "cosh", "tanh"}
SMALL_POWER = re.compile(r"\s*(?:-?\d{1,2}|\(\s*-?\d{1,2}\s*(?:/\s*\d{1,2}\s*)?\)|[A-Za-z])(?![\w(])")
"""A whole number of two digits at most, a fraction of such, or a letter."""


def evaluate(text: str) -> Fraction | None:
    """The exact value of whole numbers combined by + - * / and brackets; None for anything else."""
    if len(text) > LONGEST:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _bounded(Fraction(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return _bounded(OPERATORS[type(node.op)](_value(node.left), _value(node.right)))
    raise ValueError("not arithmetic")


def _bounded(value: Fraction) -> Fraction:
    if abs(value) > LARGEST:
        raise ValueError("too large")
    return value


def integers(text: str) -> list[int]:
    """The whole numbers in a text, in rising order."""
    return sorted(int(digits) for digits in re.findall(r"\d{1,12}", text))


def is_polynomial_like(text: str) -> bool:
    """Whether a symbolic answer is made only of numbers, one-letter names, common functions and small powers.

    Such text holds no attribute, index, string, call of anything else, or tower of powers, so a parser that
    evaluates what it is given can do nothing with it but algebra.
    """
    if len(text) > LONGEST:
        return False
    position = 0
    text = text.rstrip()
    while position < len(text):
        token = SYMBOLIC_TOKENS.match(text, position)
        if token is None:
            return False
        position = token.end()
        name = token.group().strip()
        if name.isalpha() and len(name) > 1 and name not in FUNCTIONS:
            return False
        if name == "**" and not _small_power(text, position):
            return False
    return bool(text)


def _small_power(text: str, position: int) -> bool:
    """Whether the exponent at this position is small, and not raised to a power itself."""
    exponent = SMALL_POWER.match(text, position)
    return exponent is not None and not text[exponent.end() :].lstrip().startswith("**")
