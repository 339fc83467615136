"""The program in a completion.

    completion = line*              a block is what stands between two fences:
    opening    = spaces "```" word?     three or more backticks at the start of a line, then the language or nothing
    closing    = spaces "```" spaces    at least as many backticks as the opening has, and nothing else on the line

The program is the last block in Python (`python`, `python3` or `py`, in any case), or the last block without a language
where none is in Python; blocks in other languages don't count. A block that is never closed was cut off: where the last
block is one, there is no program, even if complete ones precede it.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]*(`{3,})[ \t]*([^\s`]*)[^`]*")
_PYTHON = ("python", "python3", "py")


def last_block(text: str) -> tuple[str | None, str]:
    """The program, None where there is none, and in words where it was found or why not."""
    found: dict[bool, str] = {}
    opening, language = "", ""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        match = _FENCE.fullmatch(line)
        if not opening:
            if match:
                opening, language, lines = match[1], match[2].lower(), []
        elif match and len(match[1]) >= len(opening) and not match[2]:
            if not language or language in _PYTHON:
                found[bool(language)] = "".join(lines)
            opening = ""
        else:
            lines.append(line)
    if opening and (not language or language in _PYTHON):
        return None, "the last code block is not closed"
    if not found:
        return None, "no code block in Python"
    return found[max(found)], "the last code block"


def as_block(program: str) -> str:
    """A completion whose program is this one."""
    longest = max((len(run) for run in re.findall(r"`{3,}", program)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{program}\n{fence}\n"
