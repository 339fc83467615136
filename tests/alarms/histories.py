"""Recorded metrics of healthy runs, and what is made of them: runs with a fault from some step on, and other runs that
could have been as healthy.

    python tests/alarms/histories.py           # the false alarms of docs/alarms.md, counted anew
"""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from groupwise.alarms import findings

Row = dict[str, Any]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "histories"
HEALTHY = sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))
BLOCK, SMOOTH = 8, 9
"""Steps that are drawn together, and over which the trend is a mean."""
SHARES = ("frac_", "correct_mean", "reward_mean", "reward_parts.", "clip_fraction", "repetition")


@cache
def recorded(name: str) -> list[Row]:
    """The rows of a healthy run."""
    text = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def steps_of(rows: Sequence[Row], stage: str = "1-grpo") -> list[Row]:
    """The steps of one stage."""
    return [row for row in rows if "eval" not in row and row["stage"] == stage]


def spoilt(rows: Sequence[Row], start: int, fault: Callable[[Row, int], Mapping[str, Any]]) -> list[Row]:
    """The rows with a fault from the row of index `start` on: `fault(row, n)` gives what changes in its nth row."""
    return [row if index < start else row | fault(row, index - start + 1) for index, row in enumerate(rows)]


def resampled(rows: Sequence[Row], draw: random.Random, stretch: int = 1) -> list[Row]:
    """Another run with the same trend, `stretch` times as long: to the moving mean of every metric are added the
    departures from it of blocks of steps, drawn anew, the same steps for all metrics of a row."""
    count, numbers = len(rows) * stretch, [_flat(row) for row in rows]
    places: list[int] = []
    while len(places) < count:
        start = draw.randrange(len(rows))
        places += [(start + offset) % len(rows) for offset in range(BLOCK)]
    columns: dict[str, list[float | None]] = {}
    for name in dict.fromkeys(name for flat in numbers for name in flat):
        values = [flat.get(name) for flat in numbers]
        trend = _trend(values)
        columns[name] = [_redrawn(name, values, trend, index // stretch, places[index]) for index in range(count)]
    columns["peak_rss_mb"] = _peak([row["peak_rss_mb"] for row in rows], count)
    return [
        {"stage": rows[0]["stage"], "status": rows[index // stretch]["status"]}
        | _nested({name: values[index] for name, values in columns.items()})
        | {"step": index + 1}
        for index in range(count)
    ]


def rates(replicates: int, stretch: int = 1) -> tuple[Counter[str], int]:
    """How many of so many resampled runs per history had each alarm, and the number of runs."""
    draw, found = random.Random(0), Counter[str]()
    short = [name for name in HEALTHY if not name.startswith("long")]
    for name in short:
        rows = steps_of(recorded(name))
        for _ in range(replicates):
            found.update({finding.alarm for finding in findings(resampled(rows, draw, stretch))})
    return found, replicates * len(short)


def _flat(row: Mapping[str, Any], start: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{start}{name}.")
        elif isinstance(value, int | float):
            found[start + name] = float(value)
    return found


def _nested(flat: Mapping[str, float | None]) -> Row:
    row: Row = {}
    for name, value in flat.items():
        table, _, key = name.rpartition(".")
        (row.setdefault(table, {}) if table else row)[key] = value
    return row


def _trend(values: Sequence[float | None]) -> list[float | None]:
    means: list[float | None] = []
    for index in range(len(values)):
        reach = min(SMOOTH // 2, index, len(values) - 1 - index)
        near = [value for value in values[index - reach : index + reach + 1] if value is not None]
        means.append(sum(near) / len(near) if near else None)
    return means


def _redrawn(
    name: str, values: Sequence[float | None], trend: Sequence[float | None], place: int, source: int
) -> float | None:
    """The trend at a place with the departure at another; as a quotient where the metric has no upper end."""
    if values[place] is None or trend[place] is None:
        return None
    value, mean, base = values[source], trend[source], trend[place]
    if value is None or mean is None or base is None:
        return values[place]
    if name.startswith(SHARES):
        return min(1.0, max(0.0, base + value - mean))
    return base * value / mean if mean * value > 0 else base + value - mean


def _peak(values: Sequence[float], count: int) -> list[float | None]:
    """Peak memory as it was, and then no more: caches fill with the steps that are done, not with what is learnt."""
    return [values[min(index, len(values) - 1)] for index in range(count)]


if __name__ == "__main__":
    for longer, each in ((1, 100), (5, 20)):
        alarms, runs = rates(each, longer)
        print(f"{runs} resampled runs of {80 * longer} steps: {dict(alarms) or 'no alarm'}")
        print(f"  rate of any one alarm below {1 - math.exp(math.log(0.05) / runs):.2%} (95 %) where it had none")
