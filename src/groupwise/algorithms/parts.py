"""Groups of settings that several algorithms take, and the decisions they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.types import Group

Decision = Literal["sample", "train", "skip", "stop"]


def _zero_for_none(value: Any) -> Any:
    return 0.0 if value is None else value


Bound = Annotated[NonNegativeFloat, BeforeValidator(_zero_for_none)]
"""A bound that 0 (or None, in Python) switches off; run files can't say None."""


def off_for_none(value: Any) -> Any:
    """None as the word that run files use."""
    return "off" if value is None else value


def correction_of(value: Any) -> Any:
    """A correction by its kind alone, `"tis-token"`, as its table."""
    return {"kind": value} if isinstance(value, str) else value


class DynamicSampling(Settings):
    """Sample on until enough groups are neither all right nor all wrong (DAPO, arXiv:2503.14476, Eq. 11).

    It changes the objective: a prompt counts in proportion to the chance that its group is mixed.
    """

    metric: Literal["correct", "reward"] = "correct"
    """What must differ within a group. Shaped rewards also differ where one right answer was too long."""
    max_rounds: PositiveInt = 10
    """Rounds of sampling per step, the first one included."""
    on_exhausted: Literal["train_partial", "skip", "error"] = "train_partial"
    """After the last round: train on what there is, skip the step, or stop the run."""
    surplus: Literal["discard", "carry"] = "discard"
    """Kept groups beyond those asked for: thrown away, or used by the next step if the policy is still the same."""

    def refuses(self, group: Group) -> str | None:
        """None, or why the group gives no signal. Raises `DataError` where no completion has a verdict."""
        scores = [score for score in group.scores if score is not None and score.value is not None]
        if self.metric == "reward":
            return None if len({score.value for score in scores}) > 1 else "all rewards are equal"
        verdicts = [score.correct for score in scores if score.correct is not None]
        if scores and not verdicts:
            raise DataError(
                "dynamic sampling needs to know which completions are right, and the reward doesn't say",
                fix="return a Score with `correct`, or set dynamic_sampling.metric = 'reward'",
            )
        if any(verdicts) and not all(verdicts):
            return None
        return "every completion is right" if any(verdicts) else "no completion is right"

    def decide(self, kept: int, wanted: int, rounds: int) -> Decision:
        """What to do with `kept` groups of `wanted` after so many rounds: bounded, whatever the prompts are like."""
        if kept >= wanted:
            return "train"
        if rounds < self.max_rounds:
            return "sample"
        if self.on_exhausted == "error":
            return "stop"
        return "train" if self.on_exhausted == "train_partial" and kept > 0 else "skip"


class SoftOverlong(Settings):
    """A punishment for completions near the token limit, added to the reward (DAPO, Eq. 13)."""

    max_length: PositiveInt
    """Tokens at which the punishment is whole: the generation budget."""
    cache: PositiveInt
    """The punishment begins so many tokens earlier and falls linearly."""
    factor: PositiveFloat = 1.0
    """The whole punishment; made for rewards of +1 and -1, so it weighs twice as much beside 1 and 0."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cache > self.max_length:
            raise ValueError(f"soft_overlong.cache is {self.cache}, above max_length {self.max_length}; lower it")
        return self


class ReferenceRefresh(Settings):
    """Moves the reference after the policy (iterative GRPO, DeepSeekMath, arXiv:2402.03300, section 4.1.4)."""

    every: PositiveInt
    """Steps between refreshes, each before the rollout of its step."""
    mixing: float = Field(default=1.0, gt=0, le=1)
    """reference <- mixing * policy + (1 - mixing) * reference; 1 is a copy."""


class AdaptiveKL(Settings):
    """A KL coefficient that follows the divergence (Ziegler et al. 2019, arXiv:1909.08593, section 2.2)."""

    target: PositiveFloat = 6.0
    """The divergence to hold, in nats per completion."""
    horizon: PositiveInt = 10_000
    """Completions over which the coefficient may change by a fifth."""


@dataclass(frozen=True)
class Reads:
    """The arrays an algorithm reads, by the names that `groupwise.evaluate` gives them."""

    credit: frozenset[str] = frozenset()
    """To assign advantages."""
    loss: frozenset[str] = frozenset()
    """Once advantages are there."""

    def also(self, credit: Iterable[str] = (), loss: Iterable[str] = ()) -> Reads:
        """These and more."""
        return Reads(self.credit | frozenset(credit), self.loss | frozenset(loss))
