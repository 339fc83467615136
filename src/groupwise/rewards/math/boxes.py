r"""The boxes of a completion: `\boxed{...}` and `\fbox{...}`, found by counting braces, in one pass."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_JOINT = 60
"""Characters between two boxes that are one list."""
MOST_BOXES = 100
"""In one list."""
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\[{}\\]|[{}]")
_UNBRACED = re.compile(r"\d+(?:\.\d+)?|\\?[A-Za-z]+")
_JOINT = re.compile(
    r"""(?:\s | [,;$&] | \\[,;:!\ ()\[\]] | \\q?quad | \b(?:and|or)\b
        | \\(?:text|mbox|mathrm)\s*\{\s*,?\s*(?:and|or)?\s*\}
        | \\?[A-Za-z](?:_\{?\w{1,3}\}?)?\s*=        # a name
    )*""",
    re.VERBOSE,
)
_BLANK = {"", "~", "\\ ", "?"}


@dataclass(frozen=True, slots=True)
class Box:
    """One box that stands in no other."""

    start: int
    end: int
    content: str
    """What it holds, or the innermost of the boxes in it."""


def last_boxes(text: str) -> list[str] | str:
    """What the last box holds, or the last boxes that are joined as one list; empty where there is no box. A text says
    what is wrong with the last box."""
    boxes, broken = _boxes(text)
    if broken:
        return "the last box is not closed"
    if not boxes:
        return []
    group = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        joint = text[box.end : group[-1].start]
        if len(joint) > LONGEST_JOINT or not _JOINT.fullmatch(joint):
            break
        group.append(box)
    contents = list(dict.fromkeys(box.content.strip() for box in reversed(group)))
    if contents[-1] in _BLANK:
        return "the last box is empty"
    return contents if len(contents) <= MOST_BOXES else f"a list of {len(contents)} boxes"


def _boxes(text: str) -> tuple[list[Box], bool]:
    """All boxes in order, and whether one is opened behind the last closed one."""
    commands = list(_BOX.finditer(text))
    if not commands:
        return [], False
    found: list[Box] = []
    opened = {}  # by the place of its brace
    for command in commands:
        if text[command.end() : command.end() + 1] == "{":
            opened[command.end()] = command.start()
        else:
            symbol = _UNBRACED.match(text, command.end())
            end = command.end() if symbol is None else symbol.end()
            found.append(Box(command.start(), end, text[command.end() : end]))
    depth: list[int] = []
    closed: list[tuple[int, int, int]] = []
    for brace in _BRACE.finditer(text, commands[0].start()):
        if brace.group() == "{":
            depth.append(brace.start())
        elif brace.group() == "}" and depth and (opening := depth.pop()) in opened:
            closed.append((opened[opening], opening + 1, brace.start()))
    closed.sort()
    broken = max((opening for opening in depth if opening in opened), default=-1)
    innermost: dict[tuple[int, int, int], tuple[int, int, int]] = {}  # by the outermost around it
    outer = (-1, -1, -1)
    for box in closed:
        outer = outer if box[0] < outer[2] else box
        innermost[outer] = box
    for (start, _, end), (_, first, last) in innermost.items():
        found.append(Box(start, end + 1, text[first:last]))
    found.sort(key=lambda box: box.start)
    return found, broken > max((box.start for box in found), default=-1)
