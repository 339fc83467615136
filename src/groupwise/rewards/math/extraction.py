"""Where the answer stands in a completion. All rules run in time linear in its length.

1. What follows the last `</think>` is looked at; a thinking block that was opened and not closed holds no answer.
2. The last box: `\\boxed{...}` or `\\fbox{...}`, closed, by counting braces; of boxes within boxes the innermost.
   Boxes joined by nothing but commas, "and", "or" or a name such as `x =` are one list. A last box that is empty or
   isn't closed is a broken answer: nothing earlier is tried.
3. What follows the last `#### ` on its line.
4. What follows the last "answer is", "answer:", "A:" and the like, in the first words of its line or after it.
5. The whole text, where it is one line that can be read as an answer.
6. In the last line that has one: the last formula or the last bold text, or else the last number, with a currency.

A completion that was cut off has an answer only by rules 2 to 4, and the answer must not be its very end by 3 and 4.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\[{}\\]|[{}]")
_UNBRACED = re.compile(r"\d+(?:\.\d+)?|\\?[A-Za-z]+|[A-Za-z]")
_JOINT = re.compile(
    r"(?:\s|[,;$&]|\\[,;:! ]|\\q?quad|\\[()\[\]]|\\(?:text|mbox|mathrm)\s*\{\s*,?\s*(?:and|or)?\s*\}|\b(?:and|or)\b|\\?[A-Za-z](?:_\{?\w{1,3}\}?)?\s*=)*"
)
LONGEST_JOINT = 60
"""Characters between two boxes that are one list."""
MOST_BOXES = 100
"""In one list."""
_HASHES = re.compile(r"(?<!#)####(?!#)")
_HEADING = re.compile(r"\s*[*_]*\d+[.):]\s+\S*[A-Za-z]")
_ANSWER = re.compile(
    r"(?:\banswers?\s*(?:\\?\*\*|__)?\s*(?:is|are|=|:|could be|would be|must be|should be|was)(?![A-Za-z])|\banswer(?=\s*(?:\\\[|\\\(|\$))|^\s*(?:\*\*)?A(?:nswer)?(?:\*\*)?\s*:"
    r"|\b(?:correct|right|best)\s+(?:option|choice|letter)\s+is\b|\b(?:choose|select|pick)\s+(?:option|choice|answer)?(?=\s*\(?[A-Z]\b)|答案\s*(?:是|为|：|:)|(?:ответ|отв\.|respuesta|réponse|antwort|resposta|risposta|答え)\s*(?:は|[:：]|es\b|est\b|ist\b))",
    re.IGNORECASE | re.MULTILINE,
)
_LEADING = re.compile(
    r"(?:[\s:=]|\*\*|__|(?<![\w*])\*|>|`|(?:therefore|thus|simply|exactly|equal to|just|that|option|choice|approximately|about|[a-z]+ly)\b)*",
    re.IGNORECASE,
)
_MATHS = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<![\\$])\$(?![\s\d.,]+\s+[a-zA-Z])([^$\n]+?)(?<!\\)\$|\*\*([^*\n]+?)\*\*|__([^_\n]+?)__|`([^`\n]+?)`",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?<![\w.^])(?:[-−](?=[\d.$€£]))?(?:\\?[$€£]\s?)?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+)?(?<=\d)(?:\s?/\s?\d+(?!\d|\.\d))?(?:\s?\\?%)?(?![\w])"
)
_SENTENCE = re.compile(r"\.(?=\s|$|\*|\\|\$)|[!?](?=\s[A-Z])|。|\n\s*\n|\n(?=\s*[A-Z#*-])")
_NEGATION = re.compile(r"\s*(?:\*\*)?not\b", re.IGNORECASE)
LONGEST_LINE = 2_000
"""Characters of an answer line that are looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """The text that was taken as the answer, or why there is none."""

    text: str | None
    rule: str
    """In words: where it stood, or what was wrong."""
    candidates: tuple[str, ...] = ()
    """Where the rule leaves more than one extent for the text: all of them, the longest first."""

    def all(self) -> tuple[str, ...]:
        """The texts to read, in order; the first that can be read counts."""
        return self.candidates or (() if self.text is None else (self.text,))


def find(text: str, *, cut_off: bool = False) -> Found:
    """The answer in a completion by the rules above; `cut_off` says that its end is missing."""
    text = _after_thinking(text)
    found = find_box(text) or _after_hashes(text, cut_off) or find_answer_line(text, cut_off)
    if found is not None:
        return found
    if cut_off:
        return Found(None, "cut off before an answer was marked")
    return _unmarked(text)


def _after_thinking(text: str) -> str:
    closed = text.rfind("</think>")
    if closed >= 0:
        return text[closed + len("</think>") :]
    opened = text.find("<think>")
    return text if opened < 0 else text[:opened]


def find_box(text: str) -> Found | None:
    """The last box, or the last boxes that belong together; None where there is no box."""
    boxes, open_box = _boxes(text)
    if open_box:
        return Found(None, "the last box is not closed")
    if not boxes:
        return None
    group = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        joint = text[box[1] : group[-1][0]]
        if len(joint) > LONGEST_JOINT or not _JOINT.fullmatch(joint):
            break
        group.append(box)
    contents = list(dict.fromkeys(box[2].strip() for box in reversed(group)))
    if not contents[-1] or contents[-1] in ("~", "\\ ", "?"):
        return Found(None, "the last box is empty")
    if len(contents) > MOST_BOXES:
        return Found(None, f"a list of {len(contents)} boxes")
    return Found(", ".join(contents), "in the last box" if len(contents) == 1 else f"in the last {len(contents)} boxes")


def _boxes(text: str) -> tuple[list[tuple[int, int, str]], bool]:
    """Start, end and innermost content of each outermost box; and whether the last one isn't closed."""
    starts = list(_BOX.finditer(text))
    if not starts:
        return [], False
    openings = {match.end(): match for match in starts if text[match.end() : match.end() + 1] == "{"}
    bare = [(match.start(), *_unbraced(text, match)) for match in starts if match.end() not in openings]
    closed: list[tuple[int, int, int]] = []
    depth: list[int] = []
    for brace in _BRACE.finditer(text, starts[0].start()):
        if brace.group() == "{":
            depth.append(brace.start())
        elif brace.group() == "}" and depth:
            opening = depth.pop()
            if opening in openings:
                closed.append((openings[opening].start(), opening, brace.end()))
    unclosed = len(closed) < len(openings) and max(opening for opening in depth if opening in openings) > max(
        (start for start, _, _ in closed), default=-1
    )
    result: list[tuple[int, int, str]] = list(bare)
    inner: dict[int, tuple[int, int]] = {}
    ends = -1
    for start, opening, end in sorted(closed):
        if start >= ends:
            outer, ends = start, end
        inner[outer] = (opening, end) if outer not in inner or opening > inner[outer][0] else inner[outer]
        if start == outer:
            result.append((start, end, ""))
    result = [(start, end, _content(text, inner.get(start), content)) for start, end, content in result]
    return sorted(result), unclosed


def _content(text: str, braces: tuple[int, int] | None, content: str) -> str:
    return content if braces is None else text[braces[0] + 1 : braces[1] - 1]


def _unbraced(text: str, match: re.Match[str]) -> tuple[int, str]:
    symbol = _UNBRACED.match(text, match.end())
    return (match.end(), "") if symbol is None else (symbol.end(), symbol.group())


def _after_hashes(text: str, cut_off: bool) -> Found | None:
    last = None
    for marker in _HASHES.finditer(text):
        if not _HEADING.match(text, marker.end()):
            last = marker
    if last is None:
        return None
    line_end = text.find("\n", last.end())
    line = text[last.end() : len(text) if line_end < 0 else line_end].strip()
    if not line:
        return Found(None, "nothing after the last ####")
    if cut_off and line_end < 0:
        return Found(None, "cut off within the answer after ####")
    return Found(line, "after ####", _extents(line))


def find_answer_line(text: str, cut_off: bool = False) -> Found | None:
    """What follows the last words that announce an answer; None where there are none."""
    marker = _last(_ANSWER.finditer(text))
    if marker is None:
        return None
    shown = " ".join(marker.group().split())
    if _NEGATION.match(text, marker.end()):
        return Found(None, f"{shown!r} is denied")
    leading = _LEADING.match(text, marker.end())
    start = leading.end() if leading else marker.end()
    line = text[start : start + LONGEST_LINE].strip()
    if not line:
        return Found(None, f"nothing after {shown!r}")
    if cut_off and start + len(line) >= len(text.rstrip()) and not re.search(r"[.\n]\s*$", text):
        return Found(None, f"cut off within the answer after {shown!r}")
    maths = _MATHS.match(line)
    if maths is not None:
        inside = next(group for group in maths.groups() if group is not None)
        rest = re.split(r"[\n.]", line[maths.end() :], maxsplit=1)[0]
        candidates = (f"{inside} \\text{{{rest}}}", inside) if _hedged(rest) else (inside,)
        return Found(inside, f"after {shown!r}", candidates[:1])
    return Found(line, f"after {shown!r}", _extents(line))


def _hedged(rest: str) -> bool:
    return re.match(r"\s*(?:,\s*)?(?:or|and)\b", rest) is not None


def _extents(line: str) -> tuple[str, ...]:
    """The text up to the end of its sentence, of its line, and its first piece."""
    line = re.sub(r"(?:\*\*|__|`)+", "", line)
    first_line = line.split("\n", 1)[0]
    sentence = _SENTENCE.split(line, maxsplit=1)[0]
    parts = (
        part.strip().rstrip("!?").strip() if "$" not in part and "\\" not in part else part.strip()
        for part in (sentence, first_line)
    )
    return tuple(dict.fromkeys(part for part in parts if part))


def _unmarked(text: str) -> Found:
    stripped = text.strip()
    if not stripped:
        return Found(None, "the completion is empty")
    if "\n" not in stripped and len(stripped) <= LONGEST_LINE:
        last = find_last(stripped)
        if last.rule == "as the last formula" and last.text is not None and len(stripped) - len(last.text) > 6:
            return last
        return Found(stripped, "as the whole text")
    return find_last(text)


def find_last(text: str) -> Found:
    """Rule 6."""
    end = max((text.rfind(digit) for digit in "0123456789"), default=-1)
    lines = text[-200_000:].splitlines()
    for line in reversed(lines[-400:]):
        line = line[-LONGEST_LINE:]
        maths = _last(_MATHS.finditer(line))
        number = _last(_NUMBER.finditer(line))
        if maths is not None and not (maths.group()[0] in "*_`" and len(maths.group().split()) > 2):
            inside = next(group for group in maths.groups() if group is not None)
            if number is None or number.start() < maths.end():
                return Found(inside, "as the last formula")
        if number is not None:
            if re.search(r"(?<![\w.])\d+[\s,;]*$", line[max(0, number.start() - 50) : number.start()]):
                return Found(None, "several numbers side by side")
            return Found(number.group(), "as the last number")
    return Found(None, "no number" if end < 0 else "no number that stands alone at the end")


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(deque(matches, maxlen=1)), None)
