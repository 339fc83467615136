"""Several rewards as one, with every part recorded.

For one completion, over the rewards that gave it a value:

    value = gate * product of factors * sum over terms k of weight_k * term_k

    gate   = 0 where the value of some gate is 0 or less, else 1
    term_k = value_k, or (value_k - mean_k) / (std_k + 1e-6) with `normalise = "group"`

mean_k and std_k (population) are over the values that reward k gave to the completions of the same group. Where these
are all equal, or there is but one, the term is 0. The rules, in order:

1. A reward with weight 0 is recorded and does nothing else.
2. A reward that says None ("does not apply") is left out: a term adds nothing, a factor or gate changes nothing.
   Where no term applies, the completion is not scored.
3. A gate that is closed decides: the value is 0 whatever the others say, so that an answer which breaks a verifier
   can't escape it. 0 is not always the least: where terms can be negative, it may be more than the sum.
4. A reward that could not be asked (it raised, hung, returned NaN, can't read the gold: a `Score` without value and
   with a reason) makes the completion not scored: a total that lacks a part is not comparable with the rest of its
   group.

`correct` is that of the first term, in the order given, that has a verdict; behind a closed gate nothing is right.
Step rewards are those of the first reward that has some, as they are: roles, weights and normalisation act on `value`
alone. `parts` holds each reward's raw value under its label, and the reward's own parts under `label.part`. A single
reward that has parts of its own keeps their names.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from groupwise.errors import RewardError
from groupwise.rewards.base import Normalise, RewardSettings, Role, groups_of
from groupwise.rewards.contract import Noted, Record, Reward, TriesRows
from groupwise.rewards.in_process import InProcess
from groupwise.rewards.pooled import PooledReward
from groupwise.rewards.workers.pool import Counters
from groupwise.types import Score

EPS = 1e-6
"""Added to the standard deviation of a group, so that rounding noise stays small."""


@dataclass(frozen=True, slots=True)
class Part:
    """One reward of a combination."""

    label: str
    weight: float
    reward: Reward
    role: Role = "term"
    normalise: Normalise = "none"

    @classmethod
    def of(cls, settings: RewardSettings, base: Path) -> Part:
        """The part that these settings describe; `base` is the folder that relative paths start from."""
        return cls(settings.shown, settings.weight, settings.build(base), settings.role, settings.normalise)


class _Asked(NamedTuple):
    """What one part says of one completion."""

    part: Part
    score: Score
    value: float | None
    """The score's value, normalised where the part asks for it."""


class Combined:
    """All parts as one reward; see the module's docstring. Raises `RewardError` where no part adds anything."""

    def __init__(self, parts: Sequence[Part]) -> None:
        assert parts and len({part.label for part in parts}) == len(parts), "labels tell the parts apart"
        if not any(part.role == "term" and part.weight != 0 for part in parts):
            told = [f"{part.label} {f'is a {part.role}' if part.weight else 'has weight 0'}" for part in parts]
            raise RewardError(
                f"no reward adds to the total: {', '.join(told)}",
                fix='give one role = "term" and a weight other than 0',
            )
        self.parts = tuple(parts)

    @property
    def name(self) -> str:
        """The formula in words."""
        if len(self.parts) == 1 and self.parts[0].weight == 1:
            return self.parts[0].label
        total = " + ".join(f"{part.weight:g} {part.label}" for part in self.parts if part.role == "term")
        others = [f"{part.role} {part.label}" for part in self.parts if part.role != "term" and part.weight != 0]
        return " * ".join([*others, f"({total})"]) if others else total

    def announced(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """What the check of these rows takes its time for."""
        trying = [part.reward for part in self.parts if isinstance(part.reward, TriesRows)]
        return tuple(line for reward in trying for line in reward.announced(rows))

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for part in self.parts:
            part.reward.check(rows)

    def score(self, records: Sequence[Record]) -> list[Score]:
        columns = [part.reward.score(records) for part in self.parts]
        values = [_values(part, column, records) for part, column in zip(self.parts, columns, strict=True)]
        return [
            _combine([_Asked(*asked) for asked in zip(self.parts, *answers, strict=True)])
            for answers in zip(zip(*columns, strict=True), zip(*values, strict=True), strict=True)
        ]

    @property
    def counters(self) -> dict[str, Counters]:
        """Of each reward that calls a user's function: what went wrong so far, by label."""
        return {
            part.label: part.reward.counters for part in self.parts if isinstance(part.reward, PooledReward | InProcess)
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know before the run starts."""
        return tuple(note for part in self.parts if isinstance(part.reward, Noted) for note in part.reward.notes)

    def close(self) -> None:
        for part in self.parts:
            part.reward.close()


def normalised(values: Sequence[float | None]) -> list[float | None]:
    """The values of one group minus their mean, divided by their (population) standard deviation + 1e-6.

    None stays None and counts in neither. Both statistics are exact before rounding: the order of the values doesn't
    matter, and values that are all equal become 0.
    """
    given = [value for value in values if value is not None]
    if not given:
        return list(values)
    mean, std = statistics.mean(given), statistics.pstdev(given)
    return [None if value is None else (value - mean) / (std + EPS) for value in values]


def _values(part: Part, scores: Sequence[Score], records: Sequence[Record]) -> list[float | None]:
    values = [score.value for score in scores]
    if part.normalise == "group":
        for group in groups_of(records):
            for position, value in zip(group, normalised([values[n] for n in group]), strict=True):
                values[position] = value
    return values


def _combine(asked: Sequence[_Asked]) -> Score:
    """One completion's score by the rules of the module's docstring."""
    closed = [one for one in _counting(asked) if one.part.role == "gate" and one.value is not None and one.value <= 0]
    value, reason = _value(asked, closed)
    terms = [one.score for one in asked if one.part.role == "term"]
    verdict = next((score.correct for score in terms if score.correct is not None), None)
    steps = next((one.score for one in asked if one.score.step_rewards is not None), None)
    return Score(
        value=value,
        correct=False if closed and verdict else verdict,
        reason=reason,
        parts=_named(asked),
        step_rewards=steps.step_rewards if steps else None,
        step_ends=steps.step_ends if steps else None,
    )


def _counting(asked: Sequence[_Asked]) -> list[_Asked]:
    return [one for one in asked if one.part.weight != 0]


def _value(asked: Sequence[_Asked], closed: Sequence[_Asked]) -> tuple[float | None, str]:
    """The total, or None, and why it is that."""
    counting = _counting(asked)
    failed = [one for one in counting if one.value is None and one.score.reason]
    if all(one.value is None and not one.score.reason for one in counting if one.part.role == "term"):
        return None, "no reward applies to this completion"
    if closed:
        return 0.0, f"closed by {', '.join(one.part.label for one in closed)}. {_reasons(asked)}".rstrip()
    if failed:
        return None, _reasons(asked, failed)
    total = _total(counting)
    return (total, _reasons(asked)) if math.isfinite(total) else (None, f"the total is {total}")


def _total(counting: Sequence[_Asked]) -> float:
    """The product of the factors and the weighted sum of the terms that there are; maybe infinite or NaN."""
    given = [(one.part, one.value) for one in counting if one.value is not None]
    total = float(sum(part.weight * value for part, value in given if part.role == "term"))
    return math.prod((value for part, value in given if part.role == "factor"), start=total)


def _reasons(asked: Sequence[_Asked], chosen: Sequence[_Asked] | None = None) -> str:
    """What the chosen ones (by default all) say, each under its label where several were asked."""
    given = [one for one in (asked if chosen is None else chosen) if one.score.reason]
    if len(asked) == 1:
        return given[0].score.reason if given else ""
    return "; ".join(f"{one.part.label}: {one.score.reason}" for one in given)


def _named(asked: Sequence[_Asked]) -> dict[str, float | None]:
    if len(asked) == 1 and asked[0].score.parts:
        return dict(asked[0].score.parts)
    named: dict[str, float | None] = {}
    for part, score, _ in asked:
        named[part.label] = score.value
        named.update({f"{part.label}.{name}": value for name, value in score.parts.items()})
    return named
