"""The program of a worker that judges the steps of a completion with a function of the user's, one at a time.

    def rule(step):                                   # a `Step`; returns a bool, a number or None
        left, _, right = step.text.partition("=")
        return eval_sum(left) == int(right)

What it returns means what it means for the reward `function`: None is "does not apply to this step", and what it raises
makes the whole completion not scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from groupwise.rewards.contract import Record, Unavailable
from groupwise.rewards.learned.steps import Aggregate, failed, scored, split
from groupwise.rewards.workers.normalise import call_function
from groupwise.rewards.workers.target import Target, load
from groupwise.types import Score


@dataclass(frozen=True, slots=True)
class Step:
    """What a rule is given."""

    text: str
    """The step, without white space at its end."""
    before: str
    """The completion's text before it."""
    index: int
    """Counted from 0."""
    record: Record
    """The completion, and its row's columns."""


def make(place: str, function: str, separator: str, aggregate: Aggregate) -> Callable[[Record], Score]:
    """The reward function of a worker, from the address of the user's."""
    loaded = load(Target(place, function))

    def reward(record: Record) -> Score:
        steps = split(record.text, separator)
        rewards: list[float | None] = []
        for index, (start, end) in enumerate(steps):
            step = Step(record.text[start:end], record.text[:start], index, record)
            [outcome] = call_function(
                lambda _, step=step: loaded.function(step), [record], group=False, name=function, file=loaded.file
            )
            if outcome.fault == "machine":
                raise Unavailable(outcome.score.reason)
            if outcome.fault:
                return failed(record, steps, f"step {index + 1}: {outcome.score.reason}")
            rewards.append(outcome.score.value)
        return scored(record, steps, rewards, aggregate)

    reward.columns = loaded.columns  # type: ignore[attr-defined]
    return reward
