"""The data of a page: of each run its facts, curves, groups and pass rates, and the bounds that were kept to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from groupwise.alarms import Watcher
from groupwise.errors import RunFolderError
from groupwise.report import chosen, numbers, pass_rates
from groupwise.report.facts import changes_of, facts_of, objective_of
from groupwise.report.ledger_index import LedgerIndex
from groupwise.telemetry import metrics
from groupwise.telemetry.run_folder import RunFolder

RUNS = 8
"""The most runs that can be told apart in one chart."""


class Source:
    """One run folder, read again at each call; what the ledger held before is not read twice."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.folder, self.name = folder, name
        self.index = LedgerIndex(folder)
        self.alarms = Watcher()
        self.watched: list[dict[str, Any]] = []

    def state(self) -> tuple[int, ...]:
        """Differs where the run has recorded something since."""
        file = self.folder.metrics
        size = file.stat().st_size if file.is_file() else 0
        return (size, *(sum(1 for _ in folder.glob("step-*.parquet")) for _, folder in self.index.sources))

    def contents(self) -> dict[str, Any]:
        """All of the run but its groups."""
        rows = metrics.read(self.folder.metrics)
        steps = [row for row in rows if "eval" not in row]
        curves = numbers.curves_of(rows)
        self.index.refresh()
        training, evaluation = self.index.entries("training"), self.index.entries("evaluation")
        return {
            "name": self.name,
            "folder": str(self.folder.path),
            "facts": facts_of(self.folder, steps),
            "objective": objective_of(self.folder),
            "changes": changes_of(self.folder),
            "alarms": self._alarms(rows),
            "settings": self.folder.run_file.read_text("utf-8"),
            "stages": _stages(steps),
            "curves": {name: _short(numbers.thinned(curve)) for name, curve in curves.items()},
            "thinned": any(len(steps) > numbers.POINTS for steps, _ in curves.values()),
            "pass_rates": {
                "training": pass_rates.pass_rates(training),
                "evaluation": pass_rates.pass_rates(evaluation),
            },
            "recorded": {"training": len(training), "evaluation": len(evaluation)},
            "dropped_steps": int(curves.get("ledger_dropped_steps", ([], [0]))[1][-1]),
            "mixed": sum(entry.mixed for entry in training),
        }

    def _alarms(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """What the alarms of today say, whatever was said during the run, and which had the numbers they need.

        They see only rows that are new, for a run that goes on; all where the run went back to a checkpoint.
        """
        if rows[: len(self.watched)] != self.watched:
            self.alarms, self.watched = Watcher(), []
        for row in rows[len(self.watched) :]:
            self.alarms.see(row)
        self.watched = rows
        told = [finding.to_json() for finding in self.alarms.findings]
        return {"findings": told, "checked": sorted(self.alarms.checked)}


def sources_of(paths: Sequence[str | Path]) -> list[Source]:
    """The runs of these folders, each under a name of its own. Raises `RunFolderError`."""
    if len(paths) > RUNS:
        raise RunFolderError(
            f"{len(paths)} runs are too many to tell apart in one chart", fix=f"give at most {RUNS} folders"
        )
    folders = [RunFolder.existing(path) for path in paths]
    names = [folder.path.name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder.path) for folder in folders]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RunFolderError(f"{twice} is given twice", fix="give each run folder once")
    return [Source(folder, name) for folder, name in zip(folders, names, strict=True)]


def page_data(sources: Sequence[Source], *, live: bool) -> dict[str, Any]:
    """What the page is made of. A live page asks for its groups; another one holds a choice of them."""
    runs = []
    for source in sources:
        run = source.contents()
        if not live:
            count = len(sources)
            run["groups"] = chosen.choose(source.index, chosen.GROUPS // count, chosen.BYTES // count)
        runs.append(run)
    return {
        "live": live,
        "made": datetime.now().strftime("%Y-%m-%d %H:%M"),
        "bounds": {
            "points": numbers.POINTS,
            "tokens": chosen.TOKENS,
            "prompts": pass_rates.PROMPTS,
            "kinds": list(chosen.KINDS),
        },
        "runs": runs,
    }


def _stages(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Names, and the first step of each."""
    first: dict[str, int] = {}
    for row in steps:
        first.setdefault(row["stage"], row["step"])
    return list(first.items())


def _short(curve: numbers.Curve) -> numbers.Curve:
    return curve[0], [numbers.shorter(value) for value in curve[1]]
