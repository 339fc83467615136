"""Scripts by the Unicode ranges of their letters, and which of them languages are written in.

A script tells languages apart that don't share one: Chinese from English, Russian from Greek. It can't tell English
from French or Russian from Bulgarian, and nothing here guesses: all languages with Latin letters are the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "latin": (
        (0x41, 0x5A),
        (0x61, 0x7A),
        (0xAA, 0xAA),
        (0xBA, 0xBA),
        (0xC0, 0x24F),
        (0x1E00, 0x1EFF),
        (0xFF21, 0xFF5A),
    ),
    "greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "armenian": ((0x530, 0x58F),),
    "hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x8A0, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)),
    "devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "bengali": ((0x980, 0x9FF),),
    "gurmukhi": ((0xA00, 0xA7F),),
    "gujarati": ((0xA80, 0xAFF),),
    "tamil": ((0xB80, 0xBFF),),
    "telugu": ((0xC00, 0xC7F),),
    "kannada": ((0xC80, 0xCFF),),
    "malayalam": ((0xD00, 0xD7F),),
    "sinhala": ((0xD80, 0xDFF),),
    "thai": ((0xE00, 0xE7F),),
    "lao": ((0xE80, 0xEFF),),
    "myanmar": ((0x1000, 0x109F),),
    "georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "ethiopic": ((0x1200, 0x139F),),
    "khmer": ((0x1780, 0x17FF),),
    "hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "han": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
}
"""First and last code point of each range."""

_LATIN_LETTERS = "af ca cs cy da de en es et eu fi fr ga hr hu id is it lt lv ms nl no pl pt ro sk sl sq sv sw tl tr vi"

LANGUAGES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_LATIN_LETTERS.split(), ("latin",)),
    **dict.fromkeys(["be", "bg", "kk", "ky", "mk", "mn", "ru", "uk"], ("cyrillic",)),
    **dict.fromkeys(["ar", "fa", "ps", "ur"], ("arabic",)),
    **dict.fromkeys(["hi", "mr", "ne"], ("devanagari",)),
    "am": ("ethiopic",), "bn": ("bengali",), "el": ("greek",), "gu": ("gujarati",), "he": ("hebrew",),
    "hy": ("armenian",), "ja": ("kana", "han"), "ka": ("georgian",), "km": ("khmer",), "kn": ("kannada",),
    "ko": ("hangul",), "lo": ("lao",), "ml": ("malayalam",), "my": ("myanmar",), "pa": ("gurmukhi",),
    "si": ("sinhala",), "ta": ("tamil",), "te": ("telugu",), "th": ("thai",), "zh": ("han",),
}  # fmt: skip
"""The scripts of languages that have one way of writing, by ISO 639-1 code."""

_STARTS, _ENDS, _NAMES = zip(
    *sorted((first, last, name) for name, ranges in SCRIPTS.items() for first, last in ranges), strict=True
)


def scripts_of(name: str) -> tuple[str, ...]:
    """The scripts of a language code, or the script of that name. Raises `ValueError` for any other word."""
    if name in SCRIPTS:
        return (name,)
    if name not in LANGUAGES:
        without_region = re.split("[-_]", str(name).lower())[0]  # zh-CN
        near = get_close_matches(without_region, [*LANGUAGES, *SCRIPTS], 1)
        known = "give one of the ISO 639-1 codes, such as en, ru or zh, or a script such as latin, cyrillic or han"
        fix = f"did you mean {near[0]!r}?" if near else known
        raise ValueError(f"{name!r} is no script or language known here; {fix}")
    return LANGUAGES[name]


def script_of(letter: str) -> str | None:
    """The script of one character; None where it is in none of them, or is no letter."""
    if not letter.isalpha():
        return None
    place = bisect_right(_STARTS, ord(letter)) - 1
    return _NAMES[place] if place >= 0 and ord(letter) <= _ENDS[place] else None


def share_of_letters(text: str, names: Sequence[str]) -> float | None:
    """The share of the letters of a text that belong to these scripts or languages; None where it has no letters."""
    asked = {script for name in names for script in scripts_of(name)}
    letters = {letter: count for letter, count in Counter(text).items() if letter.isalpha()}
    total = sum(letters.values())
    return sum(count for letter, count in letters.items() if script_of(letter) in asked) / total if total else None
