"""Whether what a program printed is what was expected.

Both are split at white space; line ends, trailing blanks and a missing last newline don't matter. Two tokens agree
where they are the same text, or where both are decimal numbers, one of them with a point or an exponent, within a
relative tolerance of 1e-6 (and 1e-9 absolute, so that 0 and 1e-12 agree). Integers are compared exactly as text.
"""

from __future__ import annotations

import re
import reprlib

RELATIVE, ABSOLUTE = 1e-6, 1e-9
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_LONGEST = 400
"""Characters of a token that is read as a decimal number."""


def difference(printed: str, expected: str) -> str:
    """Where the two part, in words; empty where they agree."""
    given, wanted = printed.split(), expected.split()
    for number, (token, other) in enumerate(zip(given, wanted, strict=False), start=1):
        if not _agree(token, other):
            return f"token {number} is {reprlib.repr(token)}, not {reprlib.repr(other)}"
    if len(given) != len(wanted):
        return f"{len(given)} tokens were printed, not {len(wanted)}"
    return ""


def _agree(token: str, other: str) -> bool:
    if token == other:
        return True
    if len(token) > _LONGEST or len(other) > _LONGEST:
        return False
    if not (_DECIMAL.fullmatch(token) and _DECIMAL.fullmatch(other)):
        return False
    if _INTEGER.fullmatch(token) and _INTEGER.fullmatch(other):
        return False
    one, two = float(token), float(other)
    if one == two:
        return abs(one) != float("inf")
    return abs(one - two) <= max(RELATIVE * max(abs(one), abs(two)), ABSOLUTE) and abs(one) != float("inf")
