"""The text of an answer to what it may mean: trees for its mathematics, words for its words.

A text has more than one reading only where writers differ: 1,234 is a number, or else two members of a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from groupwise.rewards.math.characters import tidy
from groupwise.rewards.math.parsing import parse
from groupwise.rewards.math.tokens import AMBIGUOUS, LONGEST
from groupwise.rewards.math.tree import Node, Unreadable
from groupwise.rewards.math.units import CURRENCIES, unit_of
from groupwise.rewards.math.words import choice, is_wordy, phrase, plain, time_of_day

_BASED = re.compile(r"\(?([0-9A-Z]+)\)?\s*(?:_\s*\(?\s*(\d\d?)\s*\)?|_?\s*\(?\s*(?:in\s+)?base[ -]?(\d\d?)\s*\)?)")
_COMMA = re.compile(r"([-+]?)(?:\\?[$€£]\s*)?(\d{1,3}(?:[. ]\d{3})+|\d+),(\d+)(?:\s*\\?[€$£%])?")
_NUMBER = re.compile(r"[-+]?(?:\\?[$€£]\s*)?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_LETTERS = re.compile(r"[^\W\d_]+(?:[\s,.'\"]+[^\W\d_]+)*\W?")
_UNESCAPED = re.compile(r"(?<!\\)\$")
_DECIMAL = re.compile(r"[-+]?(?:\\?[$€£]\s*)?\d*\.\d+")


_AROUND = (
    *(("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"), ("\\$", "\\$")),
    *(("{", "}"), ("**", "**"), ("__", "__"), ("`", "`"), ("*", "*"), ('"', '"')),
)
"""Pairs that change nothing."""
_SPACES = ("\\,", "\\;", "\\:", "\\!", "\\quad", "\\qquad", "\\")
MOST_LAYERS = 30
"""Of what stands around an answer and changes nothing; the grammar copes with more braces."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer."""

    text: str
    """Tidied."""
    trees: tuple[Node, ...]
    """What it may mean, the likelier first; none where it isn't mathematics."""
    wordy: bool
    """It is made of words."""
    choice: tuple[str, str] | None
    """The letter of a choice, and what follows it."""
    comma: Fraction | None
    """The number that it is with a decimal comma."""
    problem: str = ""
    """Why there is no tree."""
    too_long: bool = False
    """It is equal to nothing but itself."""

    @property
    def understood(self) -> bool:
        """Whether it is an answer of any kind."""
        return bool(self.trees) or self.wordy or self.choice is not None


def read(text: str) -> Reading:
    """The readings of one answer; never raises."""
    bare = _bare(tidy(text) if len(text) <= LONGEST else text)
    if len(bare) > LONGEST:
        return Reading(bare, (), False, None, None, f"an answer of {len(bare)} characters", too_long=True)
    wordy = is_wordy(bare)
    special = time_of_day(bare) or (phrase(bare) if wordy else None) or _based(bare)
    trees: list[Node] = [] if special is None else [special]
    problem = ""
    for thousands in () if special is not None else _ways(bare):
        try:
            tree = parse(bare, thousands=thousands)
        except (Unreadable, RecursionError, ZeroDivisionError) as error:
            problem = str(error) or type(error).__name__
            continue
        if not _only_words(tree):
            trees.append(tree)
        else:
            wordy = True
    wordy = wordy and (not trees or _LETTERS.fullmatch(plain(bare)) is not None)
    return Reading(bare, tuple(trees), wordy, choice(bare), _with_comma(bare), "" if trees else problem)


def _ways(text: str) -> tuple[bool, ...]:
    """Whether a comma before three digits parts thousands, or members, or may do either."""
    if not AMBIGUOUS.search(text) or _NUMBER.fullmatch(text):
        return (True,)
    if text[0] in "([{" or text.startswith("\\{"):  # (20,100) is a pair, (20,100, 30,200) another one
        return (re.search(r",\s", text) is not None,)
    return True, False


def is_plain_decimal(text: str) -> bool:
    """Whether a tidied text is one number with decimals behind a point."""
    return _DECIMAL.fullmatch(text) is not None


def _bare(text: str) -> str:
    """Without the dollars, braces, emphasis, spaces, full stops and commas around it."""
    for _ in range(MOST_LAYERS):
        shorter = text.strip(" ~\t\r\n")
        for space in _SPACES:
            shorter = shorter.removesuffix(space).removeprefix(space if space != "\\" else "\\ ")
        shorter = shorter.rstrip(".,;:").strip()
        for opening, closing in _AROUND:
            inside = shorter[len(opening) : -len(closing)]
            if not inside or not shorter.startswith(opening) or not shorter.endswith(closing):
                continue
            alone = _UNESCAPED.search(inside) is None if opening == "$" else opening not in inside
            if alone or opening == "{" and _is_closed(inside):
                shorter = inside
                break
        if shorter == text:
            break
        text = shorter
    return text


def _is_closed(text: str) -> bool:
    """Whether every brace in it belongs to one in it."""
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth < 0:
            return False
    return depth == 0 and not text.endswith("\\")


def _based(text: str) -> Node | None:
    match = _BASED.fullmatch(plain(text))
    if match is None or len(match[1]) < 2 and not match[1].isdigit():
        return None
    base = int(match[2] or match[3])
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in match[1]):
        return None
    return Node("base", name=match[1], number=Fraction(base))


def _with_comma(text: str) -> Fraction | None:
    match = _COMMA.fullmatch(text)
    if match is None or len(match[2] + match[3]) > 400:
        return None
    value = Fraction(f"{re.sub('[. ]', '', match[2])}.{match[3]}")
    return -value if match[1] == "-" else value


def _only_words(tree: Node) -> bool:
    """Whether it has no mathematics in it: nouns alone, or a noun before a number (June 20)."""
    if tree.head == "unit":
        return tree.name not in ("$", "%")
    if tree.head == "mul" and tree.args[0].head == "unit":
        return unit_of(tree.args[0].name).kind not in CURRENCIES
    return tree.head == "list" and all(_only_words(arg) for arg in tree.args)
