r"""Where the answer stands in a completion. All rules run in time linear in its length.

1. Only what follows the last `</think>` is looked at; a thinking block that stays open holds no answer.
2. The last box, `\boxed{...}` or `\fbox{...}`, by counting braces; of boxes within boxes the innermost. Boxes joined by
   nothing but commas, "and", "or" or a name such as `x =` are one list. A last box that is empty or isn't closed is a
   broken answer: nothing earlier is tried.
3. What follows the last `####` on its line.
4. What follows the last words that announce an answer ("the answer is", "Answer:", "A:" at the start of a line, "the
   correct option is", the same in some other languages): the formula there, or else the text up to the end of the
   sentence. "The answer is not" announces nothing.
5. The whole text, where it is one line.
6. In the last line that has one: the last formula or bold text, or else the last number.

What is found by rules 3 to 5 and is prose is searched by rule 6. A completion that was cut off has an answer only by
rules 2 to 4, and by 3 and 4 only where something follows it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from groupwise.rewards.math.boxes import last_boxes

LONGEST_LINE = 2_000
"""Characters of a line that are looked at, outside boxes."""
LONGEST_WHOLE = 20_000
"""Characters of a text that is an answer as a whole."""
MOST_TRIES = 2_000
"""Places at which a word that could announce an answer is looked at, from the end."""
LONGEST_TAIL = 100_000
"""Characters from the end in which rule 6 looks for a line."""
_END_TOKENS = re.compile(r"\s*(?:<\|[\w-]{1,40}\|>|</s>)(?:\s*(?:<\|[\w-]{1,40}\|>|</s>))*\s*$")
_HASHES = re.compile(r"(?<!#)####(?!#)")
_HEADING = re.compile(r"\s*[*_]*\d+[.):]\s+\S*[A-Za-z]")
_ANCHORS = {
    "answer": r"""answers?(?:\s+(?:to|for|of)\s[^.\n:=]{0,80}?)?\s*(?:\*\*|__)?\s*
        (?:(?:is|are|was|(?:could|would|must|should)\s+be)\b|[=:]|(?=\\\[|\\\(|\$))""",
    "a:": r"a(?:\*\*)?:",
    "ans": r"ans\.?\s*[:=]",
    "correct": r"correct\s+(?:option|choice|letter)\s+is\b",
    "best": r"best\s+(?:option|choice|answer)\s+is\b",
    "choose": r"choose\s+(?:option|choice|answer)?(?=\s*\(?[A-Z]\b)",
    "select": r"select\s+(?:option|choice|answer)?(?=\s*\(?[A-Z]\b)",
    "pick": r"pick\s+(?:option|choice|answer)?(?=\s*\(?[A-Z]\b)",
    "答案": r"答案\s*(?:是|为|:|：)",
    "答え": r"答え\s*(?:は|:|：)",
    "ответ": r"ответ\s*:",
    "respuesta": r"respuesta\s*(?:es\b|:)",
    "정답": r"정답\s*(?:은|:)",
    "réponse": r"réponse\s*(?:est\b|:)",
    "antwort": r"antwort\s*(?:ist\b|:)",
}
"""How announcements go on from a word that is quick to find."""
_ANNOUNCED = {
    anchor: re.compile(rf"(?<![^\W_]){pattern}", re.IGNORECASE | re.VERBOSE) for anchor, pattern in _ANCHORS.items()
}
_AT_LINE_START = ("a:", "ans")
_LEADING = re.compile(
    r"(?:[\s:=>`]|\*\*|__|(?<![\w*])\*|\b(?:therefore|thus|just|that|equal to|option|choice|about|[a-z]+ly)\b)*",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\s*(?:\*\*)?not\b", re.IGNORECASE)
_HEDGE = re.compile(r"\s*,?\s*(?:or|and)\b")
MATHS = re.compile(
    r"""\$\$(.+?)\$\$ | \\\[(.+?)\\\] | \\\((.+?)\\\)
      | (?<![\\$])\$(?![\s\d.,]+\s+[a-zA-Z])(?!\s)([^$\n]+?)(?<![\\\s])\$(?!\d)     # not "$5 and $6"
      | \*\*([^*\n]+?)\*\* | __([^_\n]+?)__ | `([^`\n]+?)`""",
    re.DOTALL | re.VERBOSE,
)
"""A formula, or a piece of text that stands out."""
_NUMBER = re.compile(
    r"""(?<![\w.^]) (?:[-−](?=[\d.$€£]))? (?:\\?[$€£]\s?)?
        (?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)? (?:\.\d+)? (?<=\d) (?:\s?/\s?\d+(?!\d|\.\d))? (?:\s?\\?%)? (?!\w)""",
    re.VERBOSE,
)
_PAIR = re.compile(r"[(\[][^()\[\]\n]{1,100},[^()\[\]\n]{1,100}[)\]](?=[.\s]*$)")
_DENIED = re.compile(r"(?:\bnot|n't|\bnever|\bcannot)(?:\s+be)?\s+$", re.IGNORECASE)
_REFUSED = re.compile(r"\s*(?:(?:is|was|does)\s+(?:wrong|incorrect|not\b|false)|(?:is|was|does)n't)", re.IGNORECASE)
_NUMBERS_BEFORE = re.compile(r"(?<![\w.])\d+(?:[\s,;]*|[-–])$")
_SENTENCE = re.compile(r"\.(?=\s|$|\*|\\|\$)|[!?](?=\s[A-Z])|。|\n\s*\n|\n(?=\s*[A-Z#*-])")


@dataclass(frozen=True, slots=True)
class Found:
    """What may be the answer, or why there is none."""

    texts: tuple[str, ...]
    """The texts to read, in order; more than one where the end is in doubt. None: no answer."""
    rule: str
    """In words: where it stood, or what was wrong."""
    boxed: bool = False


def find(text: str, *, cut_off: bool = False) -> Found:
    """The answer in a completion by the rules above; `cut_off` says that its end is missing."""
    text = _without_end_tokens(_after_thinking(text))
    found = find_box(text) or _after_hashes(text, cut_off) or find_announced(text, cut_off)
    if found is not None:
        return found
    if cut_off:
        return Found((), "cut off before an answer was marked")
    whole = text.strip()
    if not whole:
        return Found((), "the completion is empty")
    last = find_last(whole)
    is_part = last.rule == "as the last formula" and re.search(r"\w", whole.replace(last.texts[0], "", 1)) is not None
    if "\n" in whole or len(whole) > LONGEST_WHOLE or is_part:
        return last
    return Found((whole,), "as the whole text")


def _without_end_tokens(text: str) -> str:
    tail = text[-LONGEST_LINE:]
    return text[: len(text) - len(tail)] + _END_TOKENS.sub("", tail) if tail.rstrip().endswith(">") else text


def _after_thinking(text: str) -> str:
    closed = text.rfind("</think>")
    if closed >= 0:
        return text[closed + len("</think>") :]
    opened = text.find("<think>")
    return text if opened < 0 else text[:opened]


def find_box(text: str) -> Found | None:
    """Rule 2; None where there is no box."""
    contents = last_boxes(text)
    if isinstance(contents, str):
        return Found((), contents)
    if not contents:
        return None
    rule = "in the last box" if len(contents) == 1 else f"in the last {len(contents)} boxes"
    return Found((", ".join(contents),), rule, boxed=True)


def _after_hashes(text: str, cut_off: bool) -> Found | None:
    marker = _last(hashes for hashes in _HASHES.finditer(text) if not _HEADING.match(text, hashes.end()))
    if marker is None:
        return None
    line, newline, _ = text[marker.end() :].partition("\n")
    if not line.strip():
        return Found((), "nothing after the last ####")
    if cut_off and not newline:
        return Found((), "cut off within the answer after ####")
    return Found(_extents(line), "after ####")


def find_announced(text: str, cut_off: bool = False) -> Found | None:
    """Rule 4; None where nothing announces an answer."""
    marker = _announcement(text)
    if marker is None:
        return None
    shown = repr(" ".join(marker.group().split()))
    if _NEGATION.match(text, marker.end()):
        return Found((), f"{shown} is denied")
    leading = _LEADING.match(text, marker.end())
    start = marker.end() if leading is None else leading.end()
    line = text[start : start + LONGEST_LINE].strip()
    if not line:
        return Found((), f"nothing after {shown}")
    maths = MATHS.match(line)
    if maths is None:
        if cut_off and not line[len(_SENTENCE.split(line, maxsplit=1)[0]) :].strip(" .,/"):
            return Found((), f"cut off within the answer after {shown}")
        return Found(_extents(line), f"after {shown}")
    inside, rest = _inside(maths), re.split(r"[\n.]", line[maths.end() :], maxsplit=1)[0]
    return Found((f"{inside} {rest}" if _HEDGE.match(rest) else inside,), f"after {shown}")


def _announcement(text: str) -> re.Match[str] | None:
    last: re.Match[str] | None = None
    for anchor, pattern in _ANNOUNCED.items():
        for form in (anchor, anchor.capitalize(), anchor.upper()):
            place = text.rfind(form)
            for _ in range(MOST_TRIES):
                if place < 0 or last is not None and place <= last.start():
                    break
                match = pattern.match(text, place)
                before = text[max(0, place - 8) : place].rstrip(" *_\t")
                if match is not None and (anchor not in _AT_LINE_START or not before or before[-1] == "\n"):
                    last = match
                    break
                place = text.rfind(form, 0, place)
    return last


def _extents(line: str) -> tuple[str, ...]:
    """The text up to the end of its sentence, and to the end of its line, without emphasis."""
    line = re.sub(r"(?:\*\*|__|`)+", "", line).strip()
    extents = []
    for part in (_SENTENCE.split(line, maxsplit=1)[0], line.split("\n", 1)[0]):
        is_prose = "$" not in part and "\\" not in part
        extents.append(part.strip().rstrip("!?").strip() if is_prose else part.strip())
    return tuple(dict.fromkeys(extent for extent in extents if extent))


def find_last(text: str) -> Found:
    """Rule 6."""
    for line in reversed(text[-LONGEST_TAIL:].splitlines()):
        line = line[-LONGEST_LINE:]
        maths, number = _last(MATHS.finditer(line)), _last(_NUMBER.finditer(line))
        is_prose = maths is not None and maths.group()[0] in "*_`" and len(maths.group().split()) > 2
        if maths is not None and not is_prose and (number is None or number.start() < maths.end()):
            return Found((_inside(maths),), "as the last formula")
        if number is not None:
            pair = _PAIR.search(line)
            if pair is not None and pair.start() < number.start() < pair.end():
                return Found((pair.group(),), "as the last bracket")
            if _DENIED.search(line, max(0, number.start() - 12), number.start()) or _REFUSED.match(line, number.end()):
                return Found((), "the last number is denied")
            if _NUMBERS_BEFORE.search(line, max(0, number.start() - 50), number.start()):
                return Found((), "several numbers side by side")
            return Found((number.group(),), "as the last number")
    return Found((), "no number that stands alone")


def _inside(maths: re.Match[str]) -> str:
    return next(group for group in maths.groups() if group is not None)


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(deque(matches, maxlen=1)), None)
