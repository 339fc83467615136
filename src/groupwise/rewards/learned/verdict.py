"""How a judge's reply is read: a number in a declared range, in one of two forms.

    line    the last line that isn't blank is   Score: 7     or   Score: 7/10
            whatever case, white space and light markup (* _ `) around it
    json    the reply is one JSON object with the key "score" and a number; a ```json fence around it may stand

    number  12, 7.5, -1: digits, perhaps with a sign and a decimal point
    n/m     m must be the upper end of the range

Everything else is malformed, a number outside the range included: nothing is guessed, and what stands before the last
line is never searched, since it may quote the answer that is judged.
"""

from __future__ import annotations

import json
import re
import reprlib
from typing import Any, Literal

Form = Literal["line", "json"]

NUMBER = r"[+-]?\d{1,15}(?:\.\d{1,15})?"
LINE = re.compile(rf"score\s*:\s*({NUMBER})(?:\s*/\s*({NUMBER}))?", re.IGNORECASE)
FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
MARKUP = str.maketrans("", "", "*_`")


class Malformed(Exception):
    """No verdict can be read; the message says why."""


def read_verdict(reply: str, form: Form, low: float, high: float) -> float:
    """The score in a reply. Raises `Malformed`."""
    score = _from_line(reply, high) if form == "line" else _from_json(reply)
    if not low <= score <= high:
        raise Malformed(f"the score {reprlib.repr(score)} is not between {low:g} and {high:g}")
    return float(score)


def _from_line(reply: str, high: float) -> float:
    lines = reply.strip().splitlines() or [""]
    found = LINE.fullmatch(lines[-1].translate(MARKUP).strip())
    if found is None:
        raise Malformed(f"its last line {reprlib.repr(lines[-1])} is not 'Score: number'")
    if found[2] is not None and float(found[2]) != high:
        raise Malformed(f"it scored out of {found[2]} and not of {high:g}")
    return float(found[1])


def _from_json(reply: str) -> int | float:
    text = reply.strip()
    fenced = FENCE.fullmatch(text)
    try:
        verdict = json.loads(fenced[1] if fenced else text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is no JSON object ({reprlib.repr(text)})") from error
    score = verdict.get("score") if isinstance(verdict, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed(f'it has no number under "score" ({reprlib.repr(text)})')
    return score


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
