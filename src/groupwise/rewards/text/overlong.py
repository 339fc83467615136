"""The reward `overlong`: the soft punishment of completions near the token limit (DAPO, arXiv:2503.14476, Eq. 13).

    from groupwise.rewards.text import overlong
    overlong.grade(18_432, max_length=20_480, cache=4_096)      # -0.5

    value = 0                                       up to max_length - cache tokens
            (max_length - cache - length) / cache   from there to max_length
            -1                                      beyond

The algorithms have the same as a setting, `soft_overlong`. That one is added to the reward as it enters the advantage
and leaves the recorded reward alone: it is the paper's way, and the usual one. This reward is for runs that want the
punishment among their rewards: as a part of its own in every record and curve, as a term that is normalised, or for an
algorithm without the setting. Both at once punish twice.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from groupwise.rewards.contract import Record
from groupwise.rewards.text.base import TextReward
from groupwise.types import Score


def grade(length: int, max_length: int, cache: int) -> Score:
    """The punishment of a completion of `length` tokens, the stop token included."""
    value = min(0.0, max(-1.0, (max_length - cache - length) / cache))
    return Score(value=value, reason=f"{length} tokens of {max_length}, punished from {max_length - cache}")


class Overlong(TextReward):
    """Minus 1 at the token limit, rising to 0 at `cache` tokens before it."""

    name: Literal["overlong"] = "overlong"
    max_length: int = Field(ge=1)
    """Tokens at which the punishment is whole: the generation budget, `sampling.max_tokens`."""
    cache: int = Field(ge=1)
    """The punishment begins so many tokens earlier and falls linearly."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cache > self.max_length:
            raise ValueError(f"cache = {self.cache} is above max_length = {self.max_length}; lower it")
        return self

    def score_one(self, record: Record) -> Score:
        return grade(len(record.token_ids), self.max_length, self.cache)
