r"""The grammar of `format`: a template is literals with holes between them.

    <think>{}</think><answer>{}</answer>

| hole         | what must stand there                                                                            |
|--------------|--------------------------------------------------------------------------------------------------|
| `{}`         | text, not only white space                                                                       |
| `{?}`        | anything, or nothing                                                                             |
| `\boxed{}`   | any text with at least one `\boxed{...}`, the last of which is closed and holds something;       |
|              | likewise `\name{}` with any other name                                                           |
| none         | nothing but white space, between two literals, before the first and after the last               |

A literal is a tag `<...>`, or a run of other characters on one line; white space around it doesn't count. A text
follows the template where the literals that occur in it, from left to right, are those of the template, no more and
no fewer and in its order, and each hole holds what it must. So no hole holds a literal: a second block, a nested one
or text after the answer is refused unless the template has it. Where one literal is a part of another, the longer
one is found.

A prompt may have written the template's beginning: where it ends with the first literals, white space aside, these
stand open, and the completion must go on from there. Only literals with no `{}` or `\name{}` between them can do so.

Everything takes time linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HOLE = re.compile(r"(\{\??\}|\\[A-Za-z]+\{\})")
_TAG_OR_LINE_END = re.compile(r"(<[^<>\n]+>)|\n")
_EMPTY = ("", "{?}")
"""Holes that may hold nothing."""


@dataclass(frozen=True)
class Template:
    """A parsed template. `parse` makes it."""

    literals: tuple[str, ...]
    holes: tuple[str, ...]
    """One more than literals: what may stand before each, and after the last; empty where nothing may."""

    def opened_by(self, prompt: str) -> int:
        """How many of the first literals stand at the end of this prompt."""
        count = len(self.literals)
        while count and not (all(hole in _EMPTY for hole in self.holes[:count]) and self._ends(prompt, count)):
            count -= 1
        return count

    def fault(self, text: str, opened: int = 0, *, cut_off: bool = False) -> str:
        """Why the text, after `opened` literals in the prompt, doesn't follow the template; empty where it does.

        A text that was cut off in a last hole `{}` hasn't ended it, and doesn't follow.
        """
        wanted = self.literals[opened:]
        found = list(re.finditer(self._pattern, text)) if self.literals else []
        names = tuple(one.group() for one in found)
        if names != wanted:
            return _difference(wanted, names)
        starts, ends = [0, *[one.end() for one in found]], [*[one.start() for one in found], len(text)]
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=opened):
            if wrong := _fault_in_hole(self.holes[number], text[start:end]):
                return f"{wrong} {self._place(number)}"
        if cut_off and self.holes[-1] == "{}":
            return f"it was cut off {self._place(len(self.literals))}"
        return ""

    @property
    def _pattern(self) -> str:
        longest_first = sorted(set(self.literals), key=len, reverse=True)
        return "|".join(re.escape(literal) for literal in longest_first)

    def _ends(self, prompt: str, count: int) -> bool:
        end = len(prompt)
        for literal in reversed(self.literals[:count]):
            while end and prompt[end - 1].isspace():
                end -= 1
            if not prompt.endswith(literal, 0, end):
                return False
            end -= len(literal)
        return True

    def _place(self, number: int) -> str:
        if not self.literals:
            return "in the text"
        if number == 0:
            return f"before {self.literals[0]}"
        return f"after {self.literals[number - 1]}"


def parse(template: str) -> Template:
    """The template of this text. Raises `ValueError` where it asks for nothing or has two holes side by side."""
    literals: list[str] = []
    holes = [""]
    for piece in _HOLE.split(template):
        if _HOLE.fullmatch(piece):
            if holes[-1]:
                raise ValueError(f"template = {template!r} has two holes side by side; {_parted(holes[-1], piece)}")
            holes[-1] = piece
            continue
        for part in _TAG_OR_LINE_END.split(piece):
            if part and part.strip():
                literals.append(part.strip())
                holes.append("")
    if all(hole in _EMPTY for hole in holes):
        raise ValueError(f"template = {template!r} has no hole that must be filled; write {{}} where text must stand")
    return Template(tuple(literals), tuple(holes))


def _parted(first: str, second: str) -> str:
    """What to do about two holes side by side."""
    commands = [hole for hole in (first, second) if hole.startswith("\\")]
    if len(commands) != 1:
        return "put a tag or a word between"
    other = second if commands == [first] else first
    return f"{commands[0]} already allows text around it: leave the {other} out"


def _fault_in_hole(hole: str, text: str) -> str:
    """What is wrong with the text of one hole, to be followed by its place."""
    if hole == "{?}":
        return ""
    if hole == "{}":
        return "" if text.strip() else "there is nothing"
    if hole == "":
        return "there is text" if text.strip() else ""
    command = hole[:-1]
    start = text.rfind(command)
    if start < 0:
        return f"there is no {command}...}}"
    held = _in_braces(text, start + len(command))
    if held is None:
        return f"the last {command} isn't closed"
    return "" if held.strip() else f"the last {hole} is empty"


def _in_braces(text: str, start: int) -> str | None:
    """The text from `start` to the brace that closes the one before it; None where none does."""
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[start : start + brace.start()]
    return None


def _difference(wanted: tuple[str, ...], found: tuple[str, ...]) -> str:
    """The first literal that isn't the one asked for."""
    number = next((n for n, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]), None)
    if number is None:
        if len(found) > len(wanted):
            return f"there is a further {found[len(wanted)]}"
        return f"{wanted[len(found)]} is missing"
    return f"there is {found[number]} where {wanted[number]} is asked for"
