"""The reward `language`: the share of letters that belong to the script of the language asked for.

    from groupwise.rewards.text import language
    language.grade("15は3と5の積です。", "ja")      # 1.0
    language.grade("因此答案是 fifteen", "zh")      # 5/12

This is what keeps a model from mixing languages where these have scripts of their own (the language consistency reward
of DeepSeek-R1, arXiv:2501.12948, by letters in the place of words). It can't tell languages with a common script
apart: for `en` any text in Latin letters has 1, French too. Formulas count as what they are written in, so
`\\frac` and `x` are Latin letters. Digits, punctuation and combining vowel signs are no letters; where there are no
letters the reward doesn't apply.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import model_validator

from groupwise.errors import DataError
from groupwise.rewards.base import require_columns
from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import AnswerReward
from groupwise.rewards.text.scripts import scripts_of, share_of_letters
from groupwise.types import Score


def grade(text: str, language: str) -> Score:
    """The share of letters in the script of a language (ISO 639-1) or in the script of that name.

    It has no value where there are no letters. Raises `ValueError` for a name that isn't known.
    """
    share = share_of_letters(text, [language])
    if share is None:
        return Score(value=None)
    return Score(value=share, reason=f"{share:.1%} of the letters are {' or '.join(scripts_of(language))}")


class Language(AnswerReward):
    """The share of letters in the script of a language, between 0 and 1."""

    name: Literal["language"] = "language"
    language: str | None = None
    """An ISO 639-1 code such as `zh`, or a script such as `cyrillic`. Languages with a common script, such as English
    and French, are not told apart."""
    column: str | None = None
    """Instead: the column of the row that holds it."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.language is None) == (self.column is None):
            raise ValueError('give either language = "zh" or column = "language"')
        if self.language is not None:
            scripts_of(self.language)
        return self

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.column is None:
            return
        require_columns(rows, [self.column], self.shown)
        for number, row in enumerate(rows):
            try:
                scripts_of(row[self.column])
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"reward {self.shown!r}, row {row.get('id', number)}: {error}", fix="mend or remove the row"
                ) from None

    def score_one(self, record: Record) -> Score:
        asked = self.language if self.column is None else record.columns.get(self.column)
        try:
            return grade(self.answer(record), asked)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return Score(value=None, reason=f"{reprlib.repr(asked)} is no script or language known here")
