"""Written numbers to exact values: digits with separators, decimals that repeat, numbers in words."""

from __future__ import annotations

import re
from fractions import Fraction

from groupwise.rewards.math.tree import Node, Unreadable, num

MOST_DIGITS = 20_000
"""Of a number that is read. Reading takes time that grows with the square of it."""
_PIECE = 4000
"""Digits: Python refuses to read more at once, unless told otherwise for the whole process."""
FURTHEST = 5000
"""The largest power of ten in `1e5000`."""

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
DIGIT_WORDS = {word: value for value, word in enumerate(_SMALL.split())}
"""The numbers below twenty."""
_WORDS = DIGIT_WORDS | {word: 10 * value for value, word in enumerate(_TENS.split(), 2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def read_numeral(text: str) -> Node:
    """The exact number that digits with separators and an exponent stand for. Raises `Unreadable` past the bounds."""
    digits = re.sub(r"[ ,\\]", "", text)
    if len(digits) > MOST_DIGITS:
        raise Unreadable(f"a number of {len(digits)} digits")
    mantissa, _, exponent = digits.lower().partition("e")
    whole, _, decimals = mantissa.partition(".")
    if exponent and abs(int(exponent)) > FURTHEST:
        raise Unreadable(f"the power of ten {exponent}")
    value = Fraction(whole_number(whole + decimals), 10 ** len(decimals))
    return num(value * Fraction(10) ** int(exponent or 0), digits)


def whole_number(digits: str) -> int:
    """The integer that any number of digits stands for."""
    value = 0
    for start in range(0, len(digits), _PIECE):
        piece = digits[start : start + _PIECE]
        value = value * 10 ** len(piece) + int(piece)
    return value


def repeating(start: str, period: str) -> Node:
    """0.1 and 6: the number 0.1666..."""
    whole, _, decimals = start.partition(".")
    if len(start) + len(period) > _PIECE:
        raise Unreadable("a period of thousands of digits")
    head = Fraction(int((whole or "0") + decimals), 10 ** len(decimals))
    return num(head + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(decimals)))


def from_words(words: list[str]) -> int | None:
    """The number that English words say: "twenty one", "three hundred and five"; None where they say none."""
    total, part, seen = 0, 0, False
    for word in (word.lower() for word in words):
        if word in _WORDS:
            if seen and part % 10 and _WORDS[word] or seen and 0 < part % 100 < 20 and _WORDS[word]:
                return None
            part, seen = part + _WORDS[word], True
        elif word == "hundred" and seen:
            part *= 100
        elif word in _SCALES and seen:
            total, part = total + part * _SCALES[word], 0
        elif word != "and" or not seen:
            return None
    return total + part if seen else None
