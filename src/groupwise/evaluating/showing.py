"""Tables of evaluations, 80 columns wide at most: one model, two on the same prompts, several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from groupwise.evaluating.results import Results, over_seeds
from groupwise.statistics.intervals import Interval
from groupwise.statistics.paired import Paired
from groupwise.telemetry.display import ConsoleDisplay

FEWEST = 10
"""Prompts below which intervals and tests say little."""


def show_results(results: Results, folder: Path, display: ConsoleDisplay) -> None:
    """What one model does."""
    asked = results.asked
    title = f"{results.label}: {len(results.prompts)} test prompts of {asked['task']['name']}"
    rows = [
        (name, f"{measure.value:.3f}", _between(measure.interval), str(measure.prompts))
        for name, measure in results.measures.items()
    ]
    display.table(title, ("", "mean", "95 % interval", "prompts"), rows)
    told = [f"{results.completion_length or 0:.1f} tokens a completion"]
    if results.truncated:
        told.append(f"{results.truncated:.1%} cut off at {asked['max_tokens']} tokens")
    if results.not_scored:
        told.append(f"{results.not_scored:.1%} not scored")
    if asked["samples"]:
        told.append(f"{asked['samples']} samples at temperature {asked['temperature']:g}")
    display.say("; ".join(told))
    if len(results.prompts) < FEWEST:
        display.say(f"{len(results.prompts)} prompts are too few for a conclusion")
    display.say(f"completions and results.json: {folder}")


def show_comparison(before: Results, after: Results, pairs: Mapping[str, Paired], display: ConsoleDisplay) -> None:
    """What changed from one to the other, by prompt."""
    rows = [
        (
            name,
            f"{before.measures[name].value:.3f}",
            f"{after.measures[name].value:.3f}",
            f"{pair.difference:+.3f}" + ("" if pair.interval is None else f" [{_signed(pair.interval)}]"),
            "-" if pair.p is None else "<0.0001" if pair.p < 1e-4 else f"{pair.p:.4f}",
            f"{pair.better}/{pair.worse}",
        )
        for name, pair in pairs.items()
    ]
    title = f"{after.label} against {before.label}, paired by prompt"
    display.table(title, ("", "other", "this", "difference [95 %]", "p", "up/down"), rows)
    for name in ("temperature", "max_tokens"):
        if before.asked[name] != after.asked[name]:
            display.say(f"{name} was {before.asked[name]} there and is {after.asked[name]} here")


def show_seeds(every: Sequence[Results], display: ConsoleDisplay) -> None:
    """Several runs that differ by their seed: mean and spread of each measure that all have."""
    rows = [
        (
            name,
            f"{found.mean:.3f}",
            "-" if found.deviation is None else f"{found.deviation:.3f}",
            f"{found.low:.3f}",
            f"{found.high:.3f}",
            _between(found.interval),
        )
        for name, found in over_seeds(every).items()
    ]
    title = f"{len(every)} models: mean and spread"
    display.table(title, ("", "mean", "std", "lowest", "highest", "95 % of the mean"), rows)


def _between(ends: Interval | None) -> str:
    return "-" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def _signed(ends: Interval) -> str:
    return f"{ends[0]:+.3f}, {ends[1]:+.3f}"
