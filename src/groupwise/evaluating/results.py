"""What an evaluation found, two compared, several spread: kept as JSON, to hold a later one against it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.evaluating.measures import REWARDS, ByPrompt, Measure, means
from groupwise.evaluating.records import RESULTS
from groupwise.statistics.paired import Paired, paired
from groupwise.statistics.seeds import Spread, spread


@dataclass(frozen=True)
class Results:
    """One model on one set of prompts."""

    label: str
    asked: Mapping[str, Any]
    """Model, task, rewards, seed, samples, temperature, max_tokens: what the completions depend on."""
    prompts: Mapping[str, str]
    """Prompt id to the digest of what was asked and what it was judged by."""
    by_prompt: Mapping[str, ByPrompt]
    """Measure to prompt id to value."""
    not_scored: float | None
    """Share of all completions."""
    truncated: float | None
    """Share that met `max_tokens`."""
    completion_length: float | None
    """Mean, in tokens."""

    @property
    def measures(self) -> dict[str, Measure]:
        """Measure to mean and interval."""
        return means(self.by_prompt)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `measures` is for readers, and made again from `by_prompt`."""
        return {
            "label": self.label,
            "measures": {name: asdict(measure) for name, measure in self.measures.items()},
            "not_scored": self.not_scored,
            "truncated": self.truncated,
            "completion_length": self.completion_length,
            "asked": dict(self.asked),
            "prompts": dict(self.prompts),
            "by_prompt": dict(self.by_prompt),
        }


def read_results(place: str | Path) -> Results:
    """From a results file, or the folder of an evaluation that has ended. Raises `DataError`."""
    path = Path(place) / RESULTS if Path(place).is_dir() else Path(place)
    try:
        found = json.loads(path.read_text("utf-8"))
        return Results(
            **{name: value for name, value in found.items() if name not in ("folder", "measures", "against")}
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} holds no results of an evaluation ({type(error).__name__})",
            fix="give the results.json that groupwise eval wrote, or a model",
        ) from error


def are_results(place: str) -> bool:
    """Whether this is a results file or the folder of one; a file that ends in .json is meant to be one."""
    return place.endswith(".json") or (Path(place) / RESULTS).is_file()


def compare(before: Results, after: Results) -> dict[str, Paired]:
    """Each measure that both have, paired by prompt. Raises `DataError` where the prompts or the measures differ."""
    ids = [*before.prompts, *(prompt for prompt in after.prompts if prompt not in before.prompts)]
    differing = [prompt for prompt in ids if before.prompts.get(prompt) != after.prompts.get(prompt)]
    if differing:
        raise DataError(
            f"{before.label} and {after.label} were not asked the same: {len(differing)} of {len(ids)} prompts differ, "
            f"{differing[0]!r} for one",
            fix="evaluate both on the same task, with as many prompts",
        )
    pairs = {
        name: paired(before.by_prompt[name], after.by_prompt[name], shares=name not in REWARDS)
        for name in after.by_prompt
        if name in before.by_prompt
    }
    found = {name: pair for name, pair in pairs.items() if pair is not None}
    if not found:
        raise DataError(
            f"{before.label} and {after.label} have no measure in common ({', '.join(before.by_prompt)}; "
            f"{', '.join(after.by_prompt)})",
            fix="evaluate both with the same --samples and --pass-at",
        )
    return found


def over_seeds(every: Sequence[Results]) -> dict[str, Spread]:
    """Mean and spread, over models, of each measure that all have; the interval of a share ends at 0 and 1."""
    found = {}
    for name in every[0].measures:
        values = [results.measures[name].value for results in every if name in results.measures]
        if len(values) == len(every):
            found[name] = spread(values)
            if name not in REWARDS and (ends := found[name].interval) is not None:
                found[name] = replace(found[name], interval=(max(0.0, ends[0]), min(1.0, ends[1])))
    return found


def compared_json(before: Results, pairs: Mapping[str, Paired]) -> dict[str, Any]:
    """The comparison as plain values."""
    return {"label": before.label, "measures": {name: asdict(pair) for name, pair in pairs.items()}}
