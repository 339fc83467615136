"""The answer that a completion gives, so that completions can vote (maj@k).

Rewards that compare with a gold say how an answer is found: `exact` takes the whole text, `number` its final number,
`math` the text that it reads as the answer. Others have no answer that two completions could share, so there is no
vote. All answers that were judged right are one answer, however they are written: they are all the gold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from groupwise.rewards.base import RewardSettings
from groupwise.rewards.exact import Exact
from groupwise.rewards.math.characters import tidy
from groupwise.rewards.math.extraction import find
from groupwise.rewards.math.reward import Math
from groupwise.rewards.number import Number
from groupwise.rewards.number_grammar import find_answer
from groupwise.types import Score

RIGHT = ("right",)
"""Stands for every answer that is the gold: no reader gives a tuple."""

Reader = Callable[[str, bool], Hashable | None]
"""From a completion's text without special tokens, and whether it was cut off, to its answer."""


def reader_of(rewards: Sequence[RewardSettings]) -> Reader | None:
    """How the first reward that compares with a gold reads an answer; None where no reward does."""
    for settings in rewards:
        match settings:
            case Exact():
                return lambda text, cut_off: _whole(text, settings)
            case Number():
                return lambda text, cut_off: find_answer(text, cut_off=cut_off).value
            case Math():
                return _formula
    return None


def vote_of(score: Score, text: str, cut_off: bool, reader: Reader) -> Hashable | None:
    """What a completion votes for; None where it gives no answer."""
    return RIGHT if score.correct else reader(text, cut_off)


def _whole(text: str, settings: Exact) -> str | None:
    text = text.strip() if settings.strip else text
    return (text.casefold() if settings.ignore_case else text) or None


def _formula(text: str, cut_off: bool) -> str | None:
    found = find(text, cut_off=cut_off)
    return "".join(tidy(found.texts[0]).split()) if found.texts else None
