"""Curves out of rows of metrics: every number under a dotted name, thinned where a run has very many steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

POINTS = 2000
"""The most points of one curve in the page; a longer one keeps the lowest and the highest of each stretch."""

Curve = tuple[list[int], list[float]]
"""Steps and values, in order; steps without a value are left out."""


def curves_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    """Every number of these rows: `reward_mean`, `seconds.rollout`, `eval.reward`, `eval.reward_interval.low`.

    Beside them two rates, in tokens per second: `tokens_per_second.sampling`, while sampling, and
    `tokens_per_second.training`, while updating.
    """
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        told = {name: value for name, value in row.items() if name not in ("step", "stage", "status")}
        for name, value in [*_numbers("", told), *_rates(row)]:
            found.setdefault(name, {})[row["step"]] = value
    return {name: (list(points), list(points.values())) for name, points in found.items()}


def thinned(curve: Curve, most: int = POINTS) -> Curve:
    """The curve with at most so many points: of each of most / 2 stretches its lowest and its highest."""
    steps, values = curve
    if len(steps) <= most:
        return curve
    stretches = most // 2
    kept: list[int] = []
    for number in range(stretches):
        places = range(len(steps) * number // stretches, len(steps) * (number + 1) // stretches)
        kept += sorted({min(places, key=values.__getitem__), max(places, key=values.__getitem__)})
    return [steps[place] for place in kept], [values[place] for place in kept]


def shorter(value: float) -> float:
    """Six digits: more than a curve can show."""
    return float(f"{value:.6g}")


def _numbers(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers in a row, those of objects inside it under dotted names, the two ends of an interval low and high."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value)
        elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
            yield from _numbers(f"{prefix}{name}.", dict(zip(("low", "high"), value, strict=True)))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


def _rates(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Tokens over the seconds of the phase that handled them, where it handled any."""
    seconds = row.get("seconds", {})
    for name, tokens, phase in (("sampling", "tokens_sampled", "rollout"), ("training", "tokens_trained", "update")):
        if row.get(tokens) and seconds.get(phase):
            yield f"tokens_per_second.{name}", row[tokens] / seconds[phase]
