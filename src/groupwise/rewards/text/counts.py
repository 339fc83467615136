r"""What can be counted in a text. Each is linear in it, and says by which rule.

Scripts without spaces between words (Chinese, Japanese, Thai) have long words here: count characters there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_CLOSING = "\"'\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK})]*_"
_FULL_WIDTH_ENDS = str.maketrans({mark: f"{mark} " for mark in "。！？"})
_HIGHLIGHT = re.compile(r"\*[^*\s][^*\n]*\*")
_HEADING_MARKS = frozenset("#" * level for level in range(1, 7))
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")


def characters(text: str) -> int:
    """Unicode characters, without white space at both ends."""
    return len(text.strip())


def words(text: str) -> int:
    """Runs without white space that hold a letter or a digit."""
    return sum(any(map(str.isalnum, run)) for run in text.split())


def sentences(text: str) -> int:
    """Stretches with a letter that end with `.`, `!`, `?` or `…` before white space, with `。`, `！` or `？`, or with
    the text. A number alone (`1.` before an item) is none; an abbreviation (`Dr. Who`) counts as an end."""
    ended, begun = 0, False
    for run in text.translate(_FULL_WIDTH_ENDS).split():
        begun = begun or any(map(str.isalpha, run))
        if begun and run.rstrip(_CLOSING).endswith((".", "!", "?", "…", "。", "！", "？")):
            ended, begun = ended + 1, False
    return ended + begun


def lines(text: str) -> int:
    """Lines that aren't blank."""
    return sum(1 for _ in _lines(text))


def paragraphs(text: str) -> int:
    """Stretches of lines between blank lines."""
    filled = [bool(line.strip()) for line in text.splitlines()]
    return sum(now and not before for before, now in zip([False, *filled], filled, strict=False))


def bullets(text: str) -> int:
    """Lines that begin with `-`, `*`, `+` or `•`, then white space, then something."""
    return sum(len(parts) == 2 and parts[0] in ("-", "*", "+", "•") for parts in _lines(text))


def numbered(text: str) -> int:
    """Lines that begin with digits and `.` or `)`, then white space, then something."""
    return sum(len(parts) == 2 and parts[0][:-1].isdecimal() and parts[0][-1] in ".)" for parts in _lines(text))


def headings(text: str) -> int:
    """Lines that begin with one to six `#`, then white space, then something."""
    return sum(len(parts) == 2 and parts[0] in _HEADING_MARKS for parts in _lines(text))


def highlights(text: str) -> int:
    """`*...*` within a line, one or more stars on either side and no white space after the first ones."""
    return len(_HIGHLIGHT.findall(text))


def placeholders(text: str) -> int:
    """`[...]` within a line, with something in it."""
    return len(_PLACEHOLDER.findall(text))


def capital_words(text: str) -> int:
    """Words with two or more letters, all of them capitals."""
    return sum(run.isupper() and sum(map(str.isalpha, run)) > 1 for run in text.split())


COUNTS: dict[str, Callable[[str], int]] = {
    count.__name__: count
    for count in (
        characters, words, sentences, lines, paragraphs, bullets, numbered, headings, highlights, placeholders,
        capital_words,
    )
}  # fmt: skip
"""Every count by its name."""


def _lines(text: str) -> Iterator[list[str]]:
    """Of each line that isn't blank its first word, and the rest where there is one."""
    return (parts for line in text.splitlines() if (parts := line.split(maxsplit=1)))
