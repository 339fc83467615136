"""Pass rate per prompt over time: which prompts the policy learned, when, and which it forgot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupwise.report.ledger_index import Entry

PROMPTS = 40
"""The most prompts in one map: those visited at the most steps, the earliest of equals."""
STRETCHES = 48
"""The most columns of one map: stretches of steps of about the same length."""


def pass_rates(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The map of these groups: prompts (rows), stretches of steps (columns), and `[passed, judged]` in each cell.

    Passed are completions with the verdict right. Where no completion has a verdict, `passed` sums the rewards,
    brought to 0 for the lowest and 1 for the highest of all. A cell is null where the prompt was not visited. None
    where nothing was scored.
    """
    scored = [entry for entry in entries if entry.scored]
    values = [reward for entry in scored for reward in entry.rewards if reward is not None]
    if not values:
        return None
    verdicts = any(verdict is not None for entry in scored for verdict in entry.correct)
    low, high = min(values), max(values)
    steps = sorted({entry.step for entry in scored})
    visits: dict[str, set[int]] = {}
    for entry in scored:
        visits.setdefault(entry.prompt_id, set()).add(entry.step)
    shown = sorted(visits, key=lambda prompt: -len(visits[prompt]))[:PROMPTS]
    count = min(STRETCHES, len(steps))
    column = {step: place * count // len(steps) for place, step in enumerate(steps)}
    spans = [[step for step in steps if column[step] == number] for number in range(count)]
    titles = {entry.prompt_id: entry.title for entry in scored}
    cells: dict[str, list[list[float] | None]] = {prompt: [None] * count for prompt in shown}
    for entry in scored:
        if entry.prompt_id not in cells:
            continue
        passed = _passed(entry, verdicts, low, high)
        cell = cells[entry.prompt_id][column[entry.step]] or [0.0, 0]
        cells[entry.prompt_id][column[entry.step]] = [cell[0] + sum(passed), cell[1] + len(passed)]
    return {
        "verdicts": verdicts,
        "spans": [[span[0], span[-1]] for span in spans],
        "prompts": [{"id": prompt, "title": titles[prompt], "cells": cells[prompt]} for prompt in shown],
        "left_out": len(visits) - len(shown),
    }


def _passed(entry: Entry, verdicts: bool, low: float, high: float) -> list[float]:
    if verdicts:
        return [float(verdict) for verdict in entry.correct if verdict is not None]
    width = high - low or 1.0
    return [(reward - low) / width for reward in entry.rewards if reward is not None]
