"""What stands above the curves: which run this is, what it optimises, what it changed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.errors import RunFolderError
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.summary import Summary, summarise

OBJECTIVE = "objective.txt"
"""Where a run folder says what is maximised, stage by stage, in plain maths."""


def facts_of(folder: RunFolder, steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Names and values of what a reader wants to know first; `steps` are the rows of optimiser steps."""
    try:
        run = tomllib.loads(folder.run_file.read_text("utf-8"))
    except ValueError as error:
        raise RunFolderError(
            f"{folder.run_file} is not valid TOML: {error}", fix="put the run's own file back"
        ) from error
    environment = _object(folder.environment)
    stages = run.get("stages", [run])  # a run of one stage has it at the top
    planned = sum(stage.get("steps", 0) for stage in stages)
    done = steps[-1]["step"] if steps else 0
    facts = [
        ("model", _name(run.get("model"))),
        ("stages", "; ".join(f"{_name(stage.get('algorithm'))}, {stage.get('steps')} steps" for stage in stages)),
        ("task", ", ".join(dict.fromkeys(_name(stage.get("task")) for stage in stages))),
        ("steps", f"{done} of {planned}" if done < planned else f"all {planned}"),
        ("seed", str(run.get("seed", ""))),
        ("sampled", f"{sum(row.get('tokens_sampled') or 0 for row in steps):,} tokens"),
        ("time", _duration(sum(sum(row.get("seconds", {}).values()) for row in steps))),
    ]
    for name in ("device", "weights_dtype", "compute_dtype", "threads", "torch", "groupwise"):
        if name in environment:
            facts.append((name.replace("_", " "), str(environment[name])))
    return [(name, value) for name, value in facts if value]


def objective_of(folder: RunFolder) -> str | None:
    """What is maximised, as the run recorded it; None where it did not."""
    file = folder.path / OBJECTIVE
    return file.read_text("utf-8", "replace") if file.is_file() else None


def changes_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The table that `groupwise train` ends with: first against last quarter of training, first against last
    evaluation."""
    summary: Summary | None = summarise(folder)
    return [] if summary is None else [vars(change) for change in summary.changes]


def _object(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _name(value: Any) -> str:
    """Of a table in a run file: its name."""
    return str(value.get("name", "")) if isinstance(value, Mapping) else str(value or "")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
