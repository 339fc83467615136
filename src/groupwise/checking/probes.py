"""Answers that a verifier must call right, and answers that it must not: what a check of a task asks it.

From a row come its gold answer in every form that the reward documents, and its columns `completion` and `solution`.
From the first form that was called right come the spoilt ones:

| probe | |
|---|---|
| nothing | the empty completion |
| cut in half | the first half of the accepted completion, cut at the token limit |
| a digit changed | the last digit of an answer of one line replaced by the next one |
| the sign changed | of an answer that is a number other than 0 |
| another row's answer | written in the same form |

A reward that names no gold of its own (a user's function) is tried with the columns `answer`, `completion` and
`solution`: that it refuses one form then says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from groupwise.rewards.base import RewardSettings
from groupwise.rewards.number_grammar import read_gold
from groupwise.types import FinishReason

Kind = Literal["gold", "nothing", "cut", "spoilt"]

WRITTEN = ("completion", "solution")
"""Columns that hold an answer as a model should write it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One completion to be judged, and what is asked with it."""

    row: Mapping[str, Any]
    kind: Kind
    name: str
    """The form of a gold, or what was done to it."""
    text: str
    answer: str | None = None
    """The gold answer that the text gives in this form; None for a text taken whole from the row."""
    finish_reason: FinishReason = "stop"


def sample_rows(rows: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """At most `count` rows, spread evenly."""
    if len(rows) <= count:
        return list(rows)
    return [rows[place * len(rows) // count] for place in range(count)]


def answer_of(settings: RewardSettings, row: Mapping[str, Any]) -> str | None:
    """The row's gold answer: the one that the reward compares with, else the column `answer`."""
    gold = settings.gold_text(row)
    if gold is None and isinstance(row.get("answer"), str | int | float):
        gold = str(row["answer"]).strip()
    return gold or None


def gold_probes(settings: RewardSettings, row: Mapping[str, Any]) -> Iterator[Probe]:
    """The row's gold answer in every form, the forms of the reward first."""
    answer = answer_of(settings, row)
    if answer is not None:
        forms = settings.written(answer)
        if settings.gold_text(row) is None:
            forms = {"alone": answer, **forms}
        for name, text in forms.items():
            yield Probe(row, "gold", name, text, answer)
    for column in WRITTEN:
        whole = row.get(column)
        if isinstance(whole, str) and whole.strip():
            yield Probe(row, "gold", f"the row's {column}", whole)


def spoilt_probes(settings: RewardSettings, accepted: Probe, others: Sequence[Probe]) -> Iterator[Probe]:
    """What must not be called right, made of an accepted probe; `others` are the accepted probes of other rows."""
    row = accepted.row
    yield Probe(row, "nothing", "nothing", "")
    half = accepted.text[: len(accepted.text) // 2]
    if half.strip():
        yield Probe(row, "cut", "cut in half", half, finish_reason="length")
    answer = accepted.answer or accepted.text
    wrong = {
        "a digit changed": digit_changed(answer),
        "the sign changed": sign_changed(answer),
        "another row's answer": _another(answer, accepted.answer is None, others),
    }
    for name, text in wrong.items():
        if text is not None:
            whole = text if accepted.answer is None else settings.written(text).get(accepted.name, text)
            yield Probe(row, "spoilt", name, whole)


def digit_changed(answer: str) -> str | None:
    """The last digit replaced by the next one, 9 by 0; None where there is no digit.

    A text of several lines, such as a program, may hold digits that don't matter: None.
    """
    last = re.search(r"[0-9](?=[^0-9]*\Z)", answer)
    if last is None or "\n" in answer.strip():
        return None
    return f"{answer[: last.start()]}{(int(last.group()) + 1) % 10}{answer[last.end() :]}"


def sign_changed(answer: str) -> str | None:
    """The number with the other sign; None for 0 and for what is no number."""
    value = read_gold(answer)
    if not value or "#" in answer or "\\boxed" in answer:
        return None
    bare = answer.lstrip("+")
    return bare[1:].lstrip() if bare[0] in "-−" else f"-{bare}"


def _another(answer: str, whole: bool, others: Sequence[Probe]) -> str | None:
    """The answer of another row that is surely another one; with `whole` another row's text."""
    for other in others:
        text = other.text if whole else other.answer
        if text is not None and whole == (other.answer is None) and _differ(answer, text):
            return text
    return None


def _differ(one: str, other: str) -> bool:
    """Two numbers of different value, or two texts of which neither holds the other."""
    values = read_gold(one), read_gold(other)
    if None not in values:
        return values[0] != values[1]
    texts = [re.sub(r"\W", "", text).casefold() for text in (one, other)]
    return values == (None, None) and texts[0] not in texts[1] and texts[1] not in texts[0]
