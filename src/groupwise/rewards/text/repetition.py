"""The reward `repetition`: minus the share of n-grams that stood there before.

    from groupwise.rewards.text import repetition
    repetition.grade("so we go on and so we go on".split(), n=3)       # -2/7: `so we go` and `we go on` come again

    value = distinct / n-grams - 1

between -1 and 0, over tokens or words (the penalty of "Demystifying Long Chain-of-Thought Reasoning in LLMs",
arXiv:2502.03373, and of its relatives, which scale it by a negative weight; here the sign is in the value). A
completion of fewer than n items repeats nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import AnswerReward
from groupwise.types import Score


def grade(items: Sequence[Hashable], n: int = 3) -> Score:
    """Minus the share of repeated n-grams among these tokens or words."""
    grams = _grams(items, n)
    if not grams:
        return Score(value=0.0, reason=f"fewer than {n} items")
    distinct = len(set(grams))
    return Score(value=distinct / len(grams) - 1, reason=f"{len(grams) - distinct} of {len(grams)} {n}-grams repeated")


class Repetition(AnswerReward):
    """Minus the share of n-grams that stood in the completion before, between -1 and 0."""

    name: Literal["repetition"] = "repetition"
    n: int = Field(default=3, ge=1)
    """Items in a row that count as one."""
    unit: Literal["tokens", "words"] = "tokens"
    """`tokens`: the sampled ids. `words`: what stands between white space, without regard to case."""

    @model_validator(mode="after")
    def _words_after(self) -> Self:
        if self.unit == "tokens" and self.after is not None:
            raise ValueError('unit = "tokens" counts the whole completion; beside `after` give unit = "words"')
        return self

    def score_one(self, record: Record) -> Score:
        items: Sequence[Hashable] = record.token_ids
        if self.unit == "words":
            items = self.answer(record).casefold().split()
        return grade(items, self.n)


def _grams(items: Sequence[Hashable], n: int) -> list[int]:
    """A number for each n-gram, equal where the n-grams are.

    Those of length 2k are pairs of those of length k, and two that overlap make any length between: the time grows with
    the logarithm of n.
    """
    if n > len(items):
        return []
    grams, length = _numbers(items), 1
    while 2 * length <= n:
        grams, length = _numbers(zip(grams, grams[length:], strict=False)), 2 * length
    return grams if length == n else _numbers(zip(grams, grams[n - length :], strict=False))


def _numbers(items: Iterable[Hashable]) -> list[int]:
    known: dict[Hashable, int] = {}
    return [known.setdefault(item, len(known)) for item in items]
