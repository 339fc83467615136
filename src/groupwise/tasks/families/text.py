"""Words, sentences and prose: the terms that the families' rules are written in.

A word is a run of letters and digits, with apostrophes inside it; a hyphen separates words, so that joining
words with hyphens does not make a text shorter. A sentence is a stretch of text with words in it that ends in
`.`, `!` or `?`. Prose has at least three different words with letters in them, and at least a third of its
words are different ones: ordinary text is far above that, a word said over and over is below.
"""

from __future__ import annotations

import re
import unicodedata

WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
SENTENCE = re.compile(r"[^.!?]*[.!?]+")
COMMAS = ",\u3001\u060c"
"""The comma and its Japanese and Arabic counterparts; full-width ones become plain in `normalise`."""

LEAST_DIFFERENT_WORDS = 3
LEAST_DIFFERENT_SHARE = 1 / 3


def normalise(text: str) -> str:
    """The text in Unicode's compatibility form (accents joined, full-width forms plain), outer white space
    removed."""
    return unicodedata.normalize("NFKC", text).strip()


def words(text: str) -> list[str]:
    """The words of a text, in order, as written."""
    return WORD.findall(text)


def sentences(text: str) -> tuple[list[str], str]:
    """The finished sentences of a text, and what stands after the last one (empty if that has no word)."""
    pieces = list(SENTENCE.finditer(text))
    rest = text[pieces[-1].end() :] if pieces else text
    finished = [piece.group().strip() for piece in pieces if words(piece.group())]
    return finished, rest.strip() if words(rest) else ""


def not_prose(text: str) -> str:
    """Why a text is not prose, or an empty string where it is."""
    all_words = [word.lower() for word in words(text)]
    different = {word for word in all_words if any(character.isalpha() for character in word)}
    if len(different) < LEAST_DIFFERENT_WORDS:
        return f"{len(different)} different words, at least {LEAST_DIFFERENT_WORDS} are needed"
    if len(different) < LEAST_DIFFERENT_SHARE * len(all_words):
        return f"it repeats itself: {len(different)} different words of {len(all_words)}"
    return ""
