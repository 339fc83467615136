"""How the reward `number` reads numbers, and how it finds the answer in a completion.

A number is, with an optional sign and currency before it:

    12   1,234,567   3.50   .5   1.5e3        digits; a comma (also `{,}` and `\\,`) only separates thousands
    3/4   \\frac{3}{4}                         a fraction of whole numbers
    2 3/4   2\\frac{3}{4}                      a mixed number

It is read as an exact fraction: 0.50 is 1/2, and 0.33 is not 1/3. A percent sign, a currency and a unit are
dropped on both sides: 50% is 50 and is not 0.5. Words ("seven", "3 million") are not read. A number longer
than 400 characters is not read. After a digit, a letter or a closing bracket, a minus is a subtraction: 10-5
ends in 5.

The answer is looked for in the whole completion, in time linear in its length, by the first rule that
applies:

1. the last `#### 12`, with nothing but markup between (a heading such as `#### 1. Compute` is no marker; a
`####` with nothing after it is a broken answer);
2. the last `\\boxed{...}`, which must be closed and hold one number;
3. the last "answer is", "answer:" or "answer =": the number right after it, or else the last one that
follows;
4. the last number.

Where the number goes on as an expression (`5 + 3 = 8`), the one after the line's last `=` counts; without one
there is no answer. A marker without a number is no answer: nothing earlier is tried. A completion that was
cut off needs a marker, and the number must not be the very last thing in it, since its end may be missing.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

LONGEST_NUMBER = 400
"""Characters."""

_WHOLE = r"(?:[0-9]{1,3}(?:(?:,|\{,\}|\\,)[0-9]{3})++(?![0-9])|[0-9]++)"
_NUMBER = re.compile(
    rf"""
    (?:(?<![\w)\]}}.])(?P<sign>[-+−]))?      # after a digit, letter or closing bracket it is an operator
    (?:\\?[$€£¥]\s?)?
    (?<![A-Za-z0-9_^])(?<!\^\{{)               # neither within a word nor an exponent
    (?:
        (?:(?P<whole>{_WHOLE})\s?)?\\[dt]?frac\{{(?P<top>[0-9]++)\}}\{{(?P<bottom>[0-9]++)\}}
      | (?P<mixed>{_WHOLE})[ ](?P<above>[0-9]++)/(?P<below>[0-9]++)(?!\.?[0-9])
      | (?P<over>{_WHOLE})[ ]?/[ ]?(?P<under>[0-9]++)(?!\.?[0-9])
      | (?P<decimal>{_WHOLE}(?:\.[0-9]++)?(?:[eE][-+]?[0-9]{{1,3}}(?![0-9]))?|(?<![.])\.[0-9]++)
    )
    """,
    re.VERBOSE | re.ASCII,
)
_GOES_ON = re.compile(
    r"[ \t]?(?:[-+*/×÷·−][ \t]?[0-9(\\$.]|\\(?:pi|sqrt|times|cdot|div)(?![A-Za-z]))"
    r"|\^(?!\{?\\circ)|[xyznπ](?![A-Za-z0-9])"
)
# Possessive throughout, so that no text makes it try one reading after another.
_UNIT = re.compile(r"(?:\\?[%$€£¥]|\^?(?:\\circ|\{\\circ\})|°|\\text[ ]?\{[^{}]*+\}|\\[,;! ]|[A-Za-z]{2,}+|[\s.])*+")
_MARKUP = re.compile(r"(?:[\s*_`:$]|\\?[(\[])*+")
_MARKUP_ON_LINE = re.compile(r"(?:[ \t*_`:$]|\\?[(\[])*+")
_HASHES = re.compile(r"(?<!#)####(?!#)")
_ENUMERATION = re.compile(r"[.):][\s*_]+[A-Za-z]")
_ANSWER = re.compile(r"\banswer[\s*_]{0,8}(?:is\b|:|=)", re.IGNORECASE)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """What was taken as the answer, or why there is none."""

    value: Fraction | None
    text: str
    """The characters that were read."""
    rule: str
    """In words: where it was found, or what was wrong."""


def read_gold(gold: Any) -> Fraction | None:
    """The gold as a number: a number, a text that is one, or a solution that ends in `#### n` or a box."""
    if isinstance(gold, bool):
        return None
    if isinstance(gold, Rational):
        return Fraction(gold)
    if isinstance(gold, Real):
        return Fraction(str(gold)) if math.isfinite(gold) else None  # as printed: 0.1 is 1/10
    if isinstance(gold, Decimal):
        return Fraction(gold) if gold.is_finite() else None
    if not isinstance(gold, str):
        return None
    found = _after_hashes(gold) or _boxed(gold)
    return found.value if found else _only_number(gold)


def gold_text(gold: Any) -> str | None:
    """The number of a gold as it is written there; None where it can't be read."""
    if read_gold(gold) is None:
        return None
    found = (_after_hashes(gold) or _boxed(gold)) if isinstance(gold, str) else None
    return found.text if found else str(gold).strip()


def find_answer(text: str, *, cut_off: bool = False) -> Found:
    """The answer in a completion by the rules above; `cut_off` says that its end is missing."""
    found = _after_hashes(text, cut_off) or _boxed(text) or _after_answer(text, cut_off)
    if found:
        return found
    if cut_off:
        return Found(None, "", "cut off before an answer was marked")
    last = _last_number(text, 0)
    return _settle(text, last, "as the last number", cut_off) if last else Found(None, "", "no number")


def _after_hashes(text: str, cut_off: bool = False) -> Found | None:
    last: re.Match[str] | int | None = None
    for marker in _HASHES.finditer(text):
        start = _skip(_MARKUP_ON_LINE, text, marker.end())
        number = _NUMBER.match(text, start)
        if number and not _ENUMERATION.match(text, number.end()):
            last = number
        elif start == len(text) or text[start] == "\n":
            last = start
    if last is None:
        return None
    if isinstance(last, int):
        return Found(None, "", "nothing after the last ####")
    return _settle(text, last, "after ####", cut_off)


def _boxed(text: str) -> Found | None:
    start = text.rfind("\\boxed")
    if start < 0:
        return None
    opening = start + len("\\boxed")
    depth = 0
    for brace in _BRACE.finditer(text, opening) if text[opening : opening + 1] == "{" else ():
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            content = text[opening + 1 : brace.start()]
            value = _only_number(content.rpartition("=")[2])
            rule = "in the last box" if value is not None else "the last box holds no number that can be read"
            return Found(value, content[:LONGEST_NUMBER], rule)
    return Found(None, "", "the last box is not closed")


def _after_answer(text: str, cut_off: bool) -> Found | None:
    marker = _last(_ANSWER.finditer(text))
    if marker is None:
        return None
    number = _NUMBER.match(text, _skip(_MARKUP, text, marker.end()))
    number = number or _last_number(text, marker.end())
    if number is None:
        return Found(None, "", f"no number after the last {marker.group()!r}")
    return _settle(text, number, f"after {marker.group()!r}", cut_off)


def _settle(text: str, number: re.Match[str], rule: str, cut_off: bool) -> Found:
    if _GOES_ON.match(text, number.end()):
        line_end = text.find("\n", number.end())
        line_end = len(text) if line_end < 0 else line_end
        equals = text.rfind("=", number.end(), line_end)
        after = _NUMBER.match(text, _skip(_MARKUP_ON_LINE, text, equals + 1)) if equals >= 0 else None
        if after is None or _GOES_ON.match(text, after.end()):
            return Found(None, text[number.start() : line_end][:LONGEST_NUMBER], f"an expression {rule}")
        number = after
    if cut_off and not text[number.end() :].strip(" ,./"):
        return Found(None, number.group()[:LONGEST_NUMBER], "cut off within the number")
    value = _value(number)
    if value is None:
        return Found(None, number.group()[:LONGEST_NUMBER], f"can't be read as a number, {rule}")
    return Found(value, number.group(), rule)


def _skip(markup: re.Pattern[str], text: str, start: int) -> int:
    match = markup.match(text, start)
    assert match is not None, "markup may be nothing"
    return match.end()


def _last_number(text: str, start: int) -> re.Match[str] | None:
    """Only the surroundings of the last digit are searched: longer numbers aren't read anyway."""
    end = max(text.rfind(digit, start) for digit in "0123456789") + 1
    if end <= start:
        return None
    start = max(start, end - 2 * LONGEST_NUMBER)
    return _last(_NUMBER.finditer(text, start, end + 1))  # + 1: the closing brace of a \\frac


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(deque(matches, maxlen=1)), None)


def _only_number(text: str) -> Fraction | None:
    """The number that the whole text is, currency, percent sign and unit apart."""
    text = text.strip().strip("$").strip()
    number = _NUMBER.match(text)
    if number is None or _GOES_ON.match(text, number.end()) or not _UNIT.fullmatch(text, number.end()):
        return None
    return _value(number)


def _value(number: re.Match[str]) -> Fraction | None:
    if len(number.group()) > LONGEST_NUMBER:
        return None
    part = {name: re.sub(r"[,{}\\]", "", digits or "") for name, digits in number.groupdict().items()}
    if part["decimal"]:
        size = Fraction(Decimal(part["decimal"]))
    else:
        whole = int(part["whole"] or part["mixed"] or 0)
        top, bottom = (
            part["top"] or part["above"] or part["over"],
            part["bottom"] or part["below"] or part["under"],
        )
        if int(bottom) == 0:
            return None
        size = whole + Fraction(int(top), int(bottom))
    return -size if number["sign"] in ("-", "−") else size
