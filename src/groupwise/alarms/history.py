"""The rows of one stage as series of numbers: what alarms read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean, median
from typing import Any, NamedTuple, Self

from groupwise.alarms.chance import error_without_change

MEMORY = 256
"""Steps that rules look back on beside a stage's start: what is slower is learning, and long runs stay cheap to ask."""


class Change(NamedTuple):
    """Two means, and the standard error that their difference would have if nothing had changed."""

    before: float
    now: float
    error: float


class Series:
    """The values that one metric has had, without the steps in which it was null."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.steps: list[int] = []

    def __len__(self) -> int:
        return len(self.values)

    def first(self, count: int, skip: int = 0) -> list[float]:
        """The first values after `skip` of them."""
        return self.values[skip : skip + count]

    def last(self, count: int, skip: int = 0) -> list[float]:
        """The last values before the `skip` newest."""
        end = len(self.values) - skip
        return self.values[max(0, end - count) : end]

    def mean(self, count: int) -> float | None:
        """Mean of the last values; None where there are fewer."""
        return fmean(self.values[-count:]) if len(self.values) >= count else None

    def median(self, count: int) -> float | None:
        """Median of the last values; None where there are fewer."""
        return median(self.values[-count:]) if len(self.values) >= count else None

    def since(self, beyond: Callable[[float], bool]) -> int:
        """The step at which the stretch began that goes on now: before it, two values in a row were not beyond.

        No further back than `MEMORY` values.
        """
        start, least = len(self.values), max(0, len(self.values) - MEMORY)
        while start > least and any(beyond(value) for value in self.values[max(0, start - 2) : start]):
            start -= 1
        while start < len(self.values) - 1 and not beyond(self.values[start]):
            start += 1
        return self.steps[min(start, len(self.steps) - 1)]

    def change(self, count: int) -> Change | None:
        """From the mean of the first values to that of the last; None where the two would overlap."""
        if len(self.values) < 2 * count:
            return None
        first = self.values[:count]
        return Change(fmean(first), fmean(self.values[-count:]), error_without_change(first))


class History:
    """Every metric of a stage so far, by its name in `metrics.jsonl`; `seconds.update` names one of an object.

    Beside them: `no_signal` (1 in a step without signal, else 0), `clip_fraction` (both sides), `fresh_sampler_gap`
    (the gap in the first update of a rollout, where policy and sampler have the same weights),
    `wrong_to_correct_length` (a quotient), `step_seconds`, and
    `tokens_per_second` of the steps that sample, or of all where none does.
    """

    def __init__(self) -> None:
        self.stage, self.step = "", 0
        self._series: dict[str, Series] = {}

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """The history that rows of one stage tell."""
        history = cls()
        for row in rows:
            history.add(row)
        return history

    def __getitem__(self, name: str) -> Series:
        return self._series.get(name) or Series()

    def knows(self, name: str) -> bool:
        """Whether any step had this number, or one of this object."""
        return name in self._series or bool(self.named(f"{name}."))

    def named(self, start: str) -> dict[str, Series]:
        """The series whose names begin so, without that beginning."""
        return {name.removeprefix(start): series for name, series in self._series.items() if name.startswith(start)}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in the next step's row."""
        self.stage, self.step = row["stage"], row["step"]
        for name, value in {**_numbers(row), **_derived(row)}.items():
            series = self._series.setdefault(name, Series())
            series.values.append(value)
            series.steps.append(self.step)


def _numbers(row: Mapping[str, Any], start: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= _numbers(value, f"{name}.")
        elif isinstance(value, int | float) and math.isfinite(value):
            found[start + name] = float(value)
    return found


def _derived(row: Mapping[str, Any]) -> dict[str, float]:
    found = {"no_signal": float(row.get("status") == "no signal")}
    low, high = row.get("clip_fraction_low"), row.get("clip_fraction_high")
    if low is not None and high is not None:
        found["clip_fraction"] = low + high
    begins_rollout = row.get("completion_length_mean") is not None
    if begins_rollout and row.get("sampler_gap_max") is not None:
        found["fresh_sampler_gap"] = row["sampler_gap_max"]
    wrong, correct = row.get("wrong_length_mean"), row.get("correct_length_mean")
    if wrong and correct:
        found["wrong_to_correct_length"] = wrong / correct
    seconds = sum(row["seconds"].values()) if row.get("seconds") else 0.0
    tokens = row.get("tokens_sampled") or row.get("tokens_trained")
    if begins_rollout and seconds and tokens:
        found |= {"step_seconds": seconds, "tokens_per_second": tokens / seconds}
    return found
