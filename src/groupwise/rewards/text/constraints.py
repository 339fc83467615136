"""The reward `constraints`: the answer keeps to instructions that a program can check.

    from groupwise.rewards.text import constraints
    constraints.grade("Yes, of course.", [{"kind": "words", "min": 3}, {"kind": "exclude", "texts": [","]}])    # 0.5

A constraint is a table with a `kind`:

- a count (`words`, `sentences`, `lines`, `paragraphs`, `characters`, `bullets`, `numbered`, `headings`, `highlights`,
  `placeholders`, `capital_words`; `counts` has the rule of each) with `min`, `max` or both;
- `include`: each of `texts` occurs, at least `min` (1) and at most `max` times; `exclude`: none of `texts` occurs.
  Occurrences don't overlap;
- `starts`, `ends`, `is`: the text begins with, ends with, or is one of `texts`;
- `upper`, `lower`: there are letters with case, and all are capitals, or none is;
- `json`: the text, or the one code block that it is, is a JSON object or array;
- `script`: 9 of 10 letters belong to one of `texts`, each a script or a language as in `scripts`.

`ignore_case` and `whole_words` are for kinds that take texts. White space at both ends of the text doesn't count.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from groupwise.errors import DataError
from groupwise.rewards.base import require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import AnswerReward
from groupwise.rewards.text.counts import COUNTS
from groupwise.rewards.text.scripts import scripts_of, share_of_letters
from groupwise.settings import Settings
from groupwise.types import Score

Count = Literal[
    "characters", "words", "sentences", "lines", "paragraphs", "bullets", "numbered", "headings", "highlights",
    "placeholders", "capital_words",
]  # fmt: skip
Texts = Literal["include", "exclude", "starts", "ends", "is", "script"]
Whole = Literal["upper", "lower", "json"]

SCRIPT_SHARE = 0.9
"""The share of letters that `script` asks for."""


class Constraint(Settings):
    """One instruction; the module's docstring has every kind."""

    kind: Count | Texts | Whole
    """What is counted or compared."""
    min: int | None = Field(default=None, ge=0)
    """The least count, or the fewest occurrences of each text of `include`."""
    max: int | None = Field(default=None, ge=0)
    """The largest count, or the most occurrences of each text of `include`."""
    texts: tuple[str, ...] = ()
    """What to look for."""
    ignore_case: bool = False
    """Compare texts without regard to case."""
    whole_words: bool = False
    """`include` and `exclude`: no letter, digit or underscore may stand beside an occurrence."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        given = {name for name in ("min", "max", "texts", "ignore_case", "whole_words") if getattr(self, name)}
        given |= {name for name in ("min", "max") if getattr(self, name) is not None}
        foreign = given - _FIELDS.get(self.kind, {"texts", "ignore_case"} if self.kind in _TEXTS else set())
        if foreign:
            raise ValueError(f"{', '.join(sorted(foreign))} means nothing for kind = {self.kind!r}; leave it out")
        if self.kind in COUNTS and not given:
            raise ValueError(f"kind = {self.kind!r} needs min or max")
        if self.kind in _TEXTS and not (self.texts and all(text.strip() for text in self.texts)):
            raise ValueError(f"kind = {self.kind!r} needs texts, none of them blank")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}")
        if self.kind == "script":
            for name in self.texts:
                scripts_of(name)
        return self

    def fault(self, text: str) -> str:
        """How the text breaks it; empty where it doesn't."""
        text = text.strip()
        if self.kind in COUNTS:
            return self._bounded(COUNTS[self.kind](text), self.kind)
        if self.kind in ("include", "exclude"):
            counts = [(self._occurrences(wanted, text), wanted) for wanted in self.texts]
            return next((fault for n, wanted in counts if (fault := self._bounded(n, f"times {wanted!r}"))), "")
        if self.kind == "script":
            share = share_of_letters(text, self.texts)
            low = share is None or share < SCRIPT_SHARE
            return f"{'no letters' if share is None else f'{share:.0%} of the letters'} in this script" if low else ""
        holds = self._compared(text) if self.kind in _TEXTS else _whole(self.kind, text)
        return "" if holds else f"the text is {reprlib.repr(text)}"

    def _bounded(self, count: int, what: str) -> str:
        least = 1 if self.kind == "include" and self.min is None else self.min
        most = 0 if self.kind == "exclude" else self.max
        if least is not None and count < least:
            return f"{count} {what}, at least {least} asked for"
        return f"{count} {what}, at most {most} asked for" if most is not None and count > most else ""

    def _occurrences(self, wanted: str, text: str) -> int:
        if self.ignore_case:
            wanted, text = wanted.casefold(), text.casefold()
        if self.whole_words:
            return len(re.findall(rf"(?<!\w){re.escape(wanted)}(?!\w)", text))
        return text.count(wanted)

    def _compared(self, text: str) -> bool:
        wanted = tuple(one.casefold() if self.ignore_case else one for one in self.texts)
        text = text.casefold() if self.ignore_case else text
        if self.kind == "is":
            return text in wanted
        return text.startswith(wanted) if self.kind == "starts" else text.endswith(wanted)


_TEXTS = get_args(Texts)
_FIELDS: dict[str, set[str]] = {
    **{count: {"min", "max"} for count in COUNTS},
    "include": {"min", "max", "texts", "ignore_case", "whole_words"},
    "exclude": {"texts", "ignore_case", "whole_words"},
    "script": {"texts"},
}
_LIST: TypeAdapter[tuple[Constraint, ...]] = TypeAdapter(tuple[Constraint, ...])


def read(given: Any) -> tuple[Constraint, ...]:
    """The constraints of a cell: a list of tables, the same as JSON text, or None for none.

    Keys whose value is None count as left out: columnar files fill them in. Raises `ValueError`.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        given = json.loads(given)
    if not isinstance(given, Sequence):
        raise ValueError(f"{reprlib.repr(given)} is no list")
    tables = [
        {key: value for key, value in one.items() if value is not None} if isinstance(one, Mapping) else one
        for one in given
    ]
    return _LIST.validate_python(tables)


def grade(text: str, constraints: Any, *, value: Literal["share", "all"] = "share") -> Score:
    """The share of the constraints that the text keeps, or 1 where it keeps all and 0 elsewhere.

    `correct` is whether it keeps all; `parts` has the share by kind. Without constraints there is nothing to say, and
    the score has no value. Not scored where they can't be read.
    """
    try:
        asked = read(constraints)
    except ValueError as error:
        return Score(value=None, reason=f"the constraints can't be read: {_brief(error)}")
    if not asked:
        return Score(value=None)
    faults = [one.fault(text) for one in asked]
    kept = [not fault for fault in faults]
    kinds: dict[str, list[bool]] = {}
    for one, holds in zip(asked, kept, strict=True):
        kinds.setdefault(one.kind, []).append(holds)
    broken = [f"{one.kind}: {fault}" for one, fault in zip(asked, faults, strict=True) if fault]
    return Score(
        value=float(all(kept)) if value == "all" else sum(kept) / len(kept),
        correct=all(kept),
        reason="; ".join([f"{sum(kept)} of {len(kept)} kept", *broken]),
        parts={kind: sum(holds) / len(holds) for kind, holds in kinds.items()},
    )


class Constraints(AnswerReward):
    """The share of the instructions that the answer keeps to: those of the row, and those of the run file."""

    name: Literal["constraints"] = "constraints"
    column: str = "constraints"
    """The column of the row that holds its constraints, a list of tables or the same as JSON text. `""` for none."""
    every: tuple[Constraint, ...] = ()
    """Constraints of every row."""
    value: Literal["share", "all"] = "share"
    """`share`: the share that is kept. `all`: 1 where all are, else 0."""

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.column:
            return
        require_columns(rows, [self.column], self.shown)
        for number, row in enumerate(rows):
            try:
                read(row[self.column])
            except ValueError as error:
                raise DataError(
                    f"reward {self.shown!r}: the constraints of row {row.get('id', number)} can't be read: "
                    f"{reprlib.repr(row[self.column])}: {_brief(error)}",
                    fix="mend or remove the row",
                ) from None

    def score_one(self, record: Record) -> Score:
        own = record.columns.get(self.column) if self.column else None
        try:
            asked = [*self.every, *read(own)]
        except ValueError as error:
            return Score(value=None, reason=f"the constraints can't be read: {_brief(error)}")
        return grade(self.answer(record), asked, value=self.value)


def _brief(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


def _whole(kind: str, text: str) -> bool:
    """Kinds that are about the text as a whole and need nothing else."""
    if kind == "json":
        return _is_json(text)
    return text.isupper() if kind == "upper" else text.islower()


def _is_json(text: str) -> bool:
    lines = text.splitlines()
    if len(lines) > 2 and lines[0].strip() in ("```", "```json") and lines[-1].strip() == "```":
        text = "\n".join(lines[1:-1])
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict | list)
    except (ValueError, RecursionError):  # the latter: brackets nested thousands deep
        return False


def _refuse(constant: str) -> None:
    """NaN and infinity are Python's, not JSON's."""
    raise ValueError(constant)
