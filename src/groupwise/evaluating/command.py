"""What `groupwise eval` does: one model, two compared on the same prompts, or several that differ by their seed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from groupwise.errors import RunFileError
from groupwise.evaluating.results import Results, are_results, compare, compared_json, over_seeds, read_results
from groupwise.evaluating.running import Wanted, evaluate
from groupwise.evaluating.showing import show_comparison, show_results, show_seeds
from groupwise.evaluating.target import Target, find_target, is_run
from groupwise.statistics.paired import Paired
from groupwise.telemetry.display import ConsoleDisplay
from groupwise.telemetry.run_folder import write_atomically


@dataclass(frozen=True)
class Command:
    """What the command line says. Raises `RunFileError` for what doesn't go together."""

    sources: tuple[str, ...]
    wanted: Wanted
    task: str | None = None
    overrides: tuple[str, ...] = ()
    step: str = "last"
    against: str | None = None
    against_step: str = "last"
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.against is None and self.against_step != "last":
            raise RunFileError("--against-step says nothing without --against", fix="give the other run, too")
        if self.against is not None and len(self.sources) > 1:
            raise RunFileError(
                f"--against compares two models, and {len(self.sources)} are given beside it",
                fix="give one, or leave --against out for a table over seeds",
            )
        if len(set(self.sources)) < len(self.sources):
            raise RunFileError("a model is given twice, which is no second seed", fix="give each once")


@dataclass(frozen=True)
class Found:
    """Results in the order of the sources, with their folders, and the comparison that was asked for."""

    results: tuple[tuple[Results, Path], ...]
    other: Results | None = None
    pairs: Mapping[str, Paired] | None = None

    def to_json(self) -> dict[str, Any]:
        """Of one model its results, with `against` where it was compared; of several `models` and `over_seeds`."""
        every = [{"folder": str(folder)} | results.to_json() for results, folder in self.results]
        if self.other is not None and self.pairs is not None:
            every[0]["against"] = compared_json(self.other, self.pairs)
        if len(every) == 1:
            return every[0]
        spreads = over_seeds([results for results, _ in self.results])
        return {"models": every, "over_seeds": {name: asdict(found) for name, found in spreads.items()}}

    def show(self, display: ConsoleDisplay) -> None:
        """As tables."""
        for results, folder in self.results:
            show_results(results, folder, display)
        if self.other is not None and self.pairs is not None:
            show_comparison(self.other, self.results[0][0], self.pairs, display)
        if len(self.results) > 1:
            show_seeds([results for results, _ in self.results], display)


def run_command(command: Command, display: ConsoleDisplay) -> Found:
    """Everything that is asked for is found and read before anything is sampled. Raises a `UserError`."""
    targets = [
        find_target(source, task=command.task, step=command.step, overrides=command.overrides, say=display.say)
        for source in command.sources
    ]
    earlier = read_results(command.against) if command.against and are_results(command.against) else None
    other = _other(command, targets[0], display) if command.against and earlier is None else None
    results = tuple(
        evaluate(target, command.wanted, _folder(command, number, target), display.say)
        for number, target in enumerate(targets, 1)
    )
    if other is not None:
        out = None if command.out is None else command.out / "against"
        earlier, _ = evaluate(other, command.wanted, out, display.say)
    if earlier is None:
        return Found(results)
    found = Found(results, earlier, compare(earlier, results[0][0]))
    write_atomically(results[0][1] / "results.json", json.dumps(found.to_json(), indent=1) + "\n")
    return found


def _other(command: Command, target: Target, display: ConsoleDisplay) -> Target:
    """The other model, asked what the first one is."""
    assert command.against is not None
    task = None if is_run(command.against) else command.task or command.sources[0]
    found = find_target(
        command.against, task=task, step=command.against_step, overrides=command.overrides, say=display.say
    )
    return target.with_model_of(found)


def _folder(command: Command, number: int, target: Target) -> Path | None:
    """Of several models each has its own, inside the one given."""
    if command.out is None or len(command.sources) == 1:
        return command.out
    return command.out / f"{number}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', target.label).strip('-.')}"
