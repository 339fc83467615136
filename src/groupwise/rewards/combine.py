"""Several rewards as one: a weighted sum, with every part recorded.

For one completion, over the rewards that gave it a value:

    value = sum_k weight_k * value_k

- A reward that says None ("does not apply") is left out of that completion's sum. Where none applies, the
  completion is not scored.
- A reward that could not be asked (it raised, hung, returned NaN, can't read the gold: a `Score` without
  value and with a reason) makes the completion not scored: a sum that lacks a term is not comparable with the
  rest of its group.
- A reward with weight 0 is recorded and does neither.
- `correct` is that of the first reward, in the order given, that has a verdict; step rewards likewise.
- `parts` holds each reward's value before weighting under its label, and the reward's own parts under
  `label.part`. A single reward that has parts of its own keeps their names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupwise.rewards.contract import Record, Reward
from groupwise.rewards.in_process import InProcess
from groupwise.rewards.pooled import PooledReward
from groupwise.rewards.workers.pool import Counters
from groupwise.types import Score


@dataclass(frozen=True, slots=True)
class Part:
    """One reward of a combination."""

    label: str
    weight: float
    reward: Reward


class Combined:
    """The weighted sum of its parts; see the module's docstring."""

    def __init__(self, parts: Sequence[Part]) -> None:
        assert parts and len({part.label for part in parts}) == len(parts), "labels tell the parts apart"
        self.parts = tuple(parts)

    @property
    def name(self) -> str:
        """The sum in words."""
        if len(self.parts) == 1 and self.parts[0].weight == 1:
            return self.parts[0].label
        return " + ".join(f"{part.weight:g} {part.label}" for part in self.parts)

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for part in self.parts:
            part.reward.check(rows)

    def score(self, records: Sequence[Record]) -> list[Score]:
        columns = [part.reward.score(records) for part in self.parts]
        return [self._sum(scores) for scores in zip(*columns, strict=True)]

    @property
    def counters(self) -> dict[str, Counters]:
        """Of each reward that calls a user's function: what went wrong so far, by label."""
        return {
            part.label: part.reward.counters for part in self.parts if isinstance(part.reward, PooledReward | InProcess)
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know before the run starts."""
        return tuple(note for part in self.parts if isinstance(part.reward, InProcess) for note in part.reward.notes)

    def close(self) -> None:
        for part in self.parts:
            part.reward.close()

    def _sum(self, scores: Sequence[Score]) -> Score:
        value, reason = self._value(scores)
        steps = next((score for score in scores if score.step_rewards is not None), None)
        return Score(
            value=value,
            correct=next((score.correct for score in scores if score.correct is not None), None),
            reason=reason,
            parts=self._named(scores),
            step_rewards=steps.step_rewards if steps else None,
            step_ends=steps.step_ends if steps else None,
        )

    def _value(self, scores: Sequence[Score]) -> tuple[float | None, str]:
        counting = [(part, score) for part, score in zip(self.parts, scores, strict=True) if part.weight != 0]
        failed = [(part, score) for part, score in counting if score.value is None and score.reason]
        if failed:
            return None, self._reasons(failed)
        terms = [part.weight * score.value for part, score in counting if score.value is not None]
        if not terms:
            return None, "no reward applies to this completion"
        value = math.fsum(terms)
        if not math.isfinite(value):
            return None, f"the weighted sum is {value}"
        return value, self._reasons(list(zip(self.parts, scores, strict=True)))

    def _reasons(self, pairs: Sequence[tuple[Part, Score]]) -> str:
        given = [(part.label, score.reason) for part, score in pairs if score.reason]
        if len(self.parts) == 1:
            return given[0][1] if given else ""
        return "; ".join(f"{label}: {reason}" for label, reason in given)

    def _named(self, scores: Sequence[Score]) -> dict[str, float | None]:
        if len(scores) == 1 and scores[0].parts:
            return dict(scores[0].parts)
        named: dict[str, float | None] = {}
        for part, score in zip(self.parts, scores, strict=True):
            named[part.label] = score.value
            named.update({f"{part.label}.{name}": value for name, value in score.parts.items()})
        return named
