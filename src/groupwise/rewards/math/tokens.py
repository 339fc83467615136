"""Tidied text to tokens: LaTeX, and plain notation such as `2*sqrt(3)`.

Spaces and the dollars around mathematics are dropped, and what a text macro holds becomes words. Nothing else is ever
dropped: an unknown character or command is `Unreadable`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from groupwise.rewards.math.characters import TEXT_MACROS
from groupwise.rewards.math.tree import Unreadable

LONGEST = 50_000
"""Characters of an answer that is read at all."""
MOST_TOKENS = 20_000
"""Of an answer, after brackets that stand doubled were taken away."""


class Token(NamedTuple):
    """`kind` is number, command, letters (in mathematics), word (in a text macro), mark or end."""

    kind: str
    text: str
    spaced: bool = False
    """Whether a space stands before it."""


_NUMBER = r"""(?:(?:\d{1,3}(?:(?:,|\\,)\d{3})+ | \d{1,2}(?:,\d{2})+,\d{3})(?!\d|,\d)      # thousands, or lakhs
    | \d{1,3}(?:[ ]\d{3})+(?![\d/,]|\.\d) | \d+)(?:\.(?:\d+|(?=\\overline|\\dot|\\bar)))?
    | \.\d+ | \.(?=\\overline|\\bar|\\dot)"""
_PLAIN_NUMBER = r"\d+(?:\.(?:\d+|(?=\\overline|\\dot|\\bar)))?|\.\d+"
_REST = r"""
    (?P<space>(?:\s|~|\\[,;:>/\s]|\\(?:qquad|quad|thinspace|enspace|space|newline)(?![A-Za-z]))+)
  | (?P<number>(?:{number})(?:[eE][-+]?\d{{1,5}}(?![\dA-Za-z]))?)
  | (?P<text>\\(?:{macros})(?![A-Za-z])\s*(?=\{{|[A-Za-z0-9]))
  | (?P<environment>\\(?:begin|end)\s*\{{\s*[a-zA-Z]+\*?\s*\}})
  | (?P<command>\\[A-Za-z]+|\\\\|\\.)
  | (?P<letters>[^\W\d_]+)
  | (?P<mark>\*\*|<=|>=|!=|==|[-+*/^_=<>(){{}}\[\]|,;:.!'"%$&€£¥₹¢?])
"""
_WITH = re.compile(_REST.format(number=_NUMBER, macros=TEXT_MACROS), re.VERBOSE | re.ASCII)
_WITHOUT = re.compile(_REST.format(number=_PLAIN_NUMBER, macros=TEXT_MACROS), re.VERBOSE | re.ASCII)
AMBIGUOUS = re.compile(r"\d,\d{3}(?!\d)")
"""A comma that may part thousands or members."""


def tokenize(text: str, *, thousands: bool = True) -> list[Token]:
    """The tokens of a tidied text; without `thousands` a comma always parts members. Raises `Unreadable`."""
    if len(text) > LONGEST:
        raise Unreadable(f"an answer of {len(text)} characters")
    tokens = _single_brackets(_scan(text, _WITH if thousands else _WITHOUT))
    if not thousands and any(token.kind == "number" and re.match(r"0\d", token.text) for token in tokens):
        raise Unreadable("a member that starts with 0")
    if len(tokens) > MOST_TOKENS:
        raise Unreadable(f"an answer of {len(tokens)} symbols")
    return tokens


def _scan(text: str, pattern: re.Pattern[str]) -> list[Token]:
    tokens: list[Token] = []
    braces: list[bool] = []  # for each open one: whether it belongs to a text macro
    at, spaced, in_text, end = 0, False, 0, len(text)
    while at < end:
        match = pattern.match(text, at)
        if match is None:
            raise Unreadable(f"the character {text[at]!r}")
        kind, found, at = str(match.lastgroup), match.group(), match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "text" and text[at] == "{":
            braces.append(True)
            in_text, at = in_text + 1, at + 1
            continue
        if kind == "text":
            found, at, kind = text[at], at + 1, "number" if text[at].isdigit() else "word"
        elif found in ("{", "}") and kind == "mark":
            opens = found == "{"
            if opens:
                braces.append(False)
            elif braces and braces.pop():
                in_text -= 1
                continue
        elif kind == "mark" and found == "$" and not in_text and (tokens or text.count("$") % 2 == 0):
            continue  # one alone is a currency, a pair is markup
        elif kind == "letters" and in_text:
            kind = "word"
        elif kind == "command":
            found = found[1:]
        tokens.append(Token(kind, found, spaced))
        spaced = False
    return tokens


_PAIRS = {"(": ")", "[": "]", "{": "}"}


def _single_brackets(tokens: list[Token]) -> list[Token]:
    """Without the brackets that do no more than stand right around other ones of their kind: ((x)) is (x)."""
    partner: dict[int, int] = {}
    open_ones: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _PAIRS:
            open_ones.append(place)
        elif open_ones and token.text == _PAIRS[tokens[open_ones[-1]].text]:
            partner[open_ones.pop()] = place
    spare: set[int] = set()
    for start, end in partner.items():
        inside = tokens[start + 1]
        if inside.kind == "mark" and inside.text == tokens[start].text != "[" and partner.get(start + 1) == end - 1:
            spare |= {start + 1, end - 1}
    return [token for place, token in enumerate(tokens) if place not in spare]
