"""The value of a tree at given values of its variables, bounded: no expression makes it slow or large.

What is rational stays an exact fraction; the rest is computed by mpmath. How large a power, a factorial or a binomial
would be is estimated before it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from groupwise.rewards.math.bounds import EXACT_BITS, LARGEST_LOG, MOST_WORK, TooLarge, Undefined
from groupwise.rewards.math.functions import apply
from groupwise.rewards.math.tree import Node

_ANGLES = {"degree": 180, "degrees": 180, "deg": 180, "arcmin": 180 * 60, "arcsec": 180 * 3600}
"""What half a turn has of them."""

Value = Any
"""A Fraction, or a number of mpmath."""


def number_of(node: Node) -> Fraction | float | None:
    """The value of a constant, exact where it is rational, else rounded; None where it has none that is real."""
    try:
        evaluator = Evaluator(200, {})
        value = evaluator.value(node)
        if isinstance(value, Fraction):
            return value
        return float(evaluator.mp.re(value)) if evaluator.real(value) else None
    except (TooLarge, Undefined, OverflowError):
        return None


def exact(node: Node) -> Fraction | None:
    """The value where it is a rational number that can be computed exactly."""
    value = number_of(node)
    return value if isinstance(value, Fraction) else None


class Evaluator:
    """One evaluation with so many bits.

    `reach` is the largest binary logarithm, up or down, of the numbers met, and `scale` the largest up.
    """

    def __init__(self, bits: int, point: Mapping[str, Fraction]) -> None:
        self.bits, self.point, self.work = bits, point, 0
        self.reach = self.scale = 1

    @cached_property
    def mp(self) -> Any:
        """The library, made only where something is irrational."""
        from mpmath import MPContext  # type: ignore[import-untyped]

        context = MPContext()
        context.prec = self.bits
        return context

    def value(self, node: Node) -> Value:
        """Raises `TooLarge`, `Undefined`."""
        self.work += 1
        if self.work > MOST_WORK:
            raise TooLarge
        value = self._value(node)
        self._note(value)
        return value

    def real(self, value: Value) -> bool:
        """Whether it has no imaginary part that counts."""
        return isinstance(value, Fraction) or not _is_complex(value) or self.is_zero(value.imag)

    def is_zero(self, value: Value) -> bool:
        """Exactly for a fraction; else: as near to zero as the bits can tell, for the largest number met."""
        if isinstance(value, Fraction):
            return value == 0
        return bool(abs(value) <= self.mp.ldexp(1, self.scale - self.mp.prec // 2))

    def subtract(self, a: Value, b: Value) -> Value:
        """a - b."""
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return a - b
        return self.inexact(a) - self.inexact(b)

    def divide(self, a: Value, b: Value) -> Value:
        """a / b, of a b that is not zero."""
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return a / b
        return self.inexact(a) / self.inexact(b)

    def inexact(self, value: Value) -> Value:
        """A number of mpmath."""
        if isinstance(value, Fraction):
            return self.mp.mpf(value.numerator) / self.mp.mpf(value.denominator)
        return value

    def _note(self, value: Value) -> None:
        if isinstance(value, Fraction):
            top, bottom = value.numerator.bit_length(), value.denominator.bit_length()
            self.reach, self.scale = max(self.reach, top, bottom), max(self.scale, top - bottom + 1)
            return
        if not self.mp.isfinite(value):
            raise Undefined
        size = int(self.mp.mag(value)) if value else 0
        if size < -self.mp.prec // 2:  # what rounding leaves of zero
            return
        self.reach, self.scale = max(self.reach, abs(size)), max(self.scale, size)

    def _value(self, node: Node) -> Value:
        head = node.head
        if head == "num":
            assert node.number is not None, "every number has a value"
            return node.number
        if head == "sym":
            return self._symbol(node.name)
        if head == "add":
            return self.add([self.value(arg) for arg in node.args])
        if head == "mul":
            return self.multiply([self.value(arg) for arg in node.args])
        if head == "pow":
            return self.power(self.value(node.args[0]), self.value(node.args[1]))
        if head == "mod":
            return self._remainder(*node.args)
        if head == "base":
            assert node.number is not None, "every numeral has a base"
            whole, _, places = node.name.partition(".")
            return Fraction(int(whole + places, int(node.number)), int(node.number) ** len(places))
        if head == "det":
            return self._determinant(node)
        if head == "call":
            return apply(self, node)
        if head == "unit" and node.name in _ANGLES:  # within a function; elsewhere it is taken off before
            return self.mp.pi / _ANGLES[node.name]
        raise Undefined

    def _symbol(self, name: str) -> Value:
        if name in self.point:
            return self.point[name]
        constant = {"pi": self.mp.pi, "e": self.mp.e, "i": self.mp.mpc(0, 1)}.get(name)
        if constant is None:
            raise Undefined
        return +constant

    def add(self, terms: list[Value]) -> Value:
        """Their sum. Raises `TooLarge`."""
        if all(isinstance(term, Fraction) for term in terms):
            self._fits(sum(term.denominator.bit_length() for term in terms))
            return sum(terms, Fraction(0))
        return self.mp.fsum(self.inexact(term) for term in terms)

    def multiply(self, factors: list[Value]) -> Value:
        """Their product. Raises `TooLarge`."""
        if all(isinstance(factor, Fraction) for factor in factors):
            self._fits(sum(max(f.numerator.bit_length(), f.denominator.bit_length()) for f in factors))
            return math.prod(factors, start=Fraction(1))
        return math.prod((self.inexact(factor) for factor in factors), start=self.mp.mpf(1))

    def _fits(self, bits: int) -> None:
        if bits > 4 * EXACT_BITS:
            raise TooLarge

    def power(self, base: Value, exponent: Value) -> Value:
        """base ^ exponent. Raises `TooLarge`, `Undefined`."""
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            if base == 0 and exponent <= 0:
                if exponent == 0:
                    return Fraction(1)
                raise Undefined
            if exponent.denominator == 1:
                bits = abs(exponent.numerator) * max(base.numerator.bit_length(), base.denominator.bit_length())
                if base in (1, 0):
                    return base
                if base == -1:
                    return Fraction(1 if exponent % 2 == 0 else -1)
                if bits <= EXACT_BITS:
                    return base**exponent.numerator
            elif (root := _exact_root(base, exponent)) is not None:
                return root
        base, exponent = self.inexact(base), self.inexact(exponent)
        if base == 0:
            if self.mp.re(exponent) > 0:
                return self.mp.mpf(0)
            raise Undefined
        self.bounded(abs(exponent) * max(1, abs(self.mp.log(abs(base), 2))))
        return self.mp.power(base, exponent)

    def bounded(self, logarithm: Value) -> None:
        """Raise `TooLarge` for a number whose binary logarithm is out of bounds."""
        if logarithm > LARGEST_LOG:
            raise TooLarge

    def _remainder(self, dividend: Node, divisor: Node) -> Value:
        modulus = self.value(divisor)
        if not isinstance(modulus, Fraction) or modulus.denominator != 1 or modulus <= 0:
            raise Undefined
        if dividend.head == "pow":
            base, exponent = (self.value(arg) for arg in dividend.args)
            if all(isinstance(part, Fraction) and part.denominator == 1 for part in (base, exponent)) and exponent >= 0:
                return Fraction(pow(base.numerator, exponent.numerator, modulus.numerator))
        value = self.value(dividend)
        if not isinstance(value, Fraction):
            raise Undefined
        return value % modulus

    def _determinant(self, node: Node) -> Value:
        rows = [[self.value(entry) for entry in row.args] for row in node.args]
        if any(len(row) != len(rows) for row in rows) or len(rows) > 8:
            raise Undefined
        if len(rows) == 1:
            return rows[0][0]
        matrix = self.mp.matrix([[self.inexact(entry) for entry in row] for row in rows])
        if all(isinstance(entry, Fraction) for row in rows for entry in row):
            return _exact_determinant(rows)
        return self.mp.det(matrix)


def _is_complex(value: Value) -> bool:
    """Whether a number of mpmath is complex."""
    return type(value).__name__ == "mpc"


def _exact_root(base: Fraction, exponent: Fraction) -> Fraction | None:
    """base ^ exponent where that is rational: 8^(2/3) is 4."""
    degree, bits = exponent.denominator, max(base.numerator.bit_length(), base.denominator.bit_length())
    if base < 0 or degree > 64 or bits > 4096 or bits * abs(exponent.numerator) > EXACT_BITS:
        return None
    top, bottom = _whole_root(base.numerator, degree), _whole_root(base.denominator, degree)
    return None if top is None or bottom is None else Fraction(top, bottom) ** exponent.numerator


def _whole_root(value: int, degree: int) -> int | None:
    if value < 2:
        return value
    if degree == 2:
        root = math.isqrt(value)
        return root if root * root == value else None
    low, high = 1, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < value:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == value else None


def _exact_determinant(rows: list[list[Fraction]]) -> Fraction:
    rows, result = [list(row) for row in rows], Fraction(1)
    for column in range(len(rows)):
        pivot = next((place for place in range(column, len(rows)) if rows[place][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = -result
        result *= rows[column][column]
        for place in range(column + 1, len(rows)):
            factor = rows[place][column] / rows[column][column]
            rows[place] = [entry - factor * top for entry, top in zip(rows[place], rows[column], strict=True)]
    return result
