"""Answers in words: names, dates, phrases that stand for mathematics, letters of choices."""

from __future__ import annotations

import re
from fractions import Fraction

from groupwise.rewards.math.characters import TEXT_MACROS
from groupwise.rewards.math.cursor import FUNCTIONS
from groupwise.rewards.math.numerals import from_words
from groupwise.rewards.math.regions import MINUS, PLUS
from groupwise.rewards.math.tree import Node, names, neg, num
from groupwise.rewards.math.units import is_unit, singular

_MACRO = re.compile(rf"\\(?:{TEXT_MACROS})\s*(?=\{{)|\\[,;:! ]|[{{}}$~]")
_ARTICLES = {"a", "an", "the"}
_COPULAS = {"is", "are", "was", "were", "be", "form", "forms", "equals", "becomes", "called"}
_MONTHS = names("january february march april may june july august september october november december")
_ELSEWHERE = names(
    """see refer figure diagram graph table shown above below vary varies proof omitted provided attached sketch
    drawing"""
)
"""Words of a gold that says where the answer is."""
_NOTHING = {
    "na",
    "n a",
    "none given",
    "not given",
    "no answer",
    "unknown",
    "tbd",
    "todo",
    "null",
    "nan",
    "nil",
    "not applicable",
    "answer",
}
_PHRASES = {
    **dict.fromkeys(("all real numbers", "all reals", "all real", "real numbers", "any real number"), Node("reals")),
    **dict.fromkeys(("infinity", "positive infinity", "infinite"), PLUS),
    **dict.fromkeys(("negative infinity", "minus infinity"), MINUS),
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions"), Node("empty")),
    "empty set": Node("empty"),
}
"""Mathematics in words."""
_SMALL_WORDS = {"and", "or", "per", "pi", "inf", "infinity"}
_SAME = dict.fromkeys(("dne", "undefined", "not defined"), "doe not exist")
"""In the singular, as all words are compared."""
_SYMBOL = re.compile(r"(?<![^\W\d_])-|-(?![^\W\d_])|[+!<>=^_/|*\[\]]")
"""Signs that have a meaning, unlike a hyphen."""
_PARTS = {
    "half": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
_CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s*:?\s+)?(?:\(([A-Za-z])\)|([A-Za-z])(?=\s*$|[).:]))\s*[).:]*\s*(.*)",
    re.DOTALL | re.IGNORECASE,
)
_TIME = re.compile(r"(\d{1,2})\s*:\s*(\d\d)(?:\s*:\s*(\d\d))?\s*(?:([ap])\.?\s*m\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"(\d{1,2})\s*([ap])\.?\s*m\.?", re.IGNORECASE)
_DAY_TIMES = {"a": "am", "p": "pm"}


def plain(text: str) -> str:
    """The text without text macros and braces."""
    return " ".join(_MACRO.sub(" ", text).split())


def words_of(text: str) -> list[str]:
    """Its words and numbers in lower case, without articles."""
    words = re.findall(r"[^\W_]+", plain(text).lower().replace("'", ""))
    return [word for word in words if word not in _ARTICLES] or words


def is_wordy(text: str) -> bool:
    """Whether a tidied text is made of words, with no more than a number or a sign among them."""
    bare = plain(text)
    letters = re.findall(r"[^\W\d_]+", bare)
    return (
        bool(letters)
        and "\\" not in bare
        and not re.search(r"[=^_<>+*/|\[\]&%]", bare)
        and any(len(word) > 1 for word in letters)
    )


def prose_words(text: str) -> int:
    """How many words of a text are neither functions nor units nor numbers."""
    words = re.findall(r"(?<![\\A-Za-z])[^\W\d_]{2,}", _MACRO.sub(" ", text))
    return sum(
        1
        for word in words
        if word not in FUNCTIONS
        and not is_unit(word)
        and word.lower() not in _SMALL_WORDS
        and from_words([word]) is None
    )


def begins_as_prose(text: str) -> bool:
    """Whether a text that nothing announces starts with a word, and isn't just one or two."""
    words = re.findall(r"[^\W\d_]+", _MACRO.sub(" ", text))
    first = re.match(r"\W*([^\W\d_]{2,})", _MACRO.sub(" ", text))
    if first is None or text.lstrip()[:1] == "\\" or first[1] in FUNCTIONS or from_words([first[1]]) is not None:
        return prose_words(text) > 2
    return prose_words(text) > 0 and (len(words) > 2 or re.search(r"\d", text) is not None)


def points_elsewhere(text: str) -> bool:
    """Whether a gold says where the answer is, or that there is none, instead of what it is."""
    words = re.findall(r"[^\W_]+", plain(text).lower())
    return " ".join(words) in _NOTHING or len(words) > 1 and bool(_ELSEWHERE & set(words))


def phrase(text: str) -> Node | None:
    """The mathematics that a phrase in words stands for: a number, an infinity, a well-known set."""
    if text[:1] == "-":
        inner = phrase(text[1:])
        return None if inner is None else neg(inner)
    words = words_of(text)
    value = from_words(words)
    if value is not None:
        return num(Fraction(value))
    part = _PARTS.get(singular(words[-1].replace("halves", "half"))) if words else None
    if part is not None and (count := from_words(words[:-1] or ["one"])) is not None:
        return num(Fraction(count, part))
    while words and words[0] in ("x", "in", "there", "are", "has", "is", "approximately", "about"):
        words = words[1:]
    return _PHRASES.get(" ".join(words))


def same_words(left: str, right: str, *, case: bool) -> bool:
    """Whether two texts say the same: articles, punctuation and (without `case`) upper case apart."""
    if case and [word for word in re.findall(r"\w+", plain(left))] != [
        word for word in re.findall(r"\w+", plain(right))
    ]:
        return False
    a, b = words_of(left), words_of(right)
    if _MONTHS & set(a) and _MONTHS & set(b):
        a, b = sorted(_dated(a)), sorted(_dated(b))
    elif "," in left and "," in right:  # names in a list
        a, b = sorted(a), sorted(b)
    one, other = (" ".join(singular(word) for word in words) for words in (a, b))
    if not a or not b or _SYMBOL.findall(plain(left)) != _SYMBOL.findall(plain(right)):
        return False
    if _SAME.get(one, one) == _SAME.get(other, other):
        return True
    return len(a) != len(b) and (_complement(a) == b or _complement(b) == a)


def _dated(words: list[str]) -> list[str]:
    return [re.sub(r"^(\d+)(?:st|nd|rd|th)$", r"\1", word) for word in words if word != "of"]


def _complement(words: list[str]) -> list[str]:
    """What a sentence says of its subject: "the midpoints form a regular hexagon" says "regular hexagon"."""
    for place in range(1, len(words)):
        if words[place] in _COPULAS:
            return words[place + 1 :]
    return []


def choice(text: str) -> tuple[str, str] | None:
    """The letter of a choice, and what is written behind it; None where the text is something else."""
    bare = plain(text.replace("\\ ", " "))
    match = _CHOICE.fullmatch(bare)
    if match is None:
        return None
    rest = match[3].strip()
    if re.match(r"(?:and|or|,|/|&)(?![a-z])", rest, re.IGNORECASE) or re.search(r"\([A-Z]\)", rest):
        return None
    return match[1] or match[2], rest


def time_of_day(text: str) -> Node | None:
    """4:30 p.m., 12:00, 9 am: minutes since midnight, and am or pm where that is said."""
    bare = plain(text)
    match = _TIME.fullmatch(bare)
    if (
        match is not None
        and int(match[1]) < 25
        and int(match[2]) < 60
        and (match[4] or match[2][0] == "0" or match[1][0] == "0")
    ):
        minutes = int(match[1]) * 60 + int(match[2]) + Fraction(int(match[3] or 0), 60)
        return Node("time", name=_DAY_TIMES.get((match[4] or "").lower(), ""), number=Fraction(minutes))
    match = _HOUR.fullmatch(bare)
    if match is not None and int(match[1]) < 13:
        return Node("time", name=_DAY_TIMES[match[2].lower()], number=Fraction(int(match[1]) * 60))
    return None
