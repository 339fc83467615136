"""Everything that a run leaves, and where.

run.toml                 the effective run file
environment.json         what was chosen by measurement or given by the machine: threads, dtype, versions
objective.txt            what each stage maximises, in plain maths
metrics.jsonl            one object per optimiser step, and one per evaluation
alarms.jsonl             one object per finding of the alarms, where there is one
rollouts/                step-000001.parquet: one row per completion
evaluations/             step-000000.parquet: one row per evaluated completion
checkpoints/             step-N/: weights in the Hugging Face layout, optimiser, cursor, counters
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupwise.errors import RunFolderError


class RunFolder:
    """The paths of a run folder; `create` refuses to write over another run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.run_file = self.path / "run.toml"
        self.environment = self.path / "environment.json"
        self.objective = self.path / "objective.txt"
        self.metrics = self.path / "metrics.jsonl"
        self.alarms = self.path / "alarms.jsonl"
        self.rollouts = self.path / "rollouts"
        self.evaluations = self.path / "evaluations"
        self.checkpoints = self.path / "checkpoints"

    @classmethod
    def check_free(cls, path: str | Path) -> RunFolder:
        """The folder, not yet made; raises `RunFolderError` where a run can't be written there."""
        folder = cls(path)
        if folder.run_file.exists():
            raise RunFolderError(
                f"{path} already holds a run", fix=f"resume it with --resume {path}, or give another --out"
            )
        if folder.path.is_dir() and any(folder.path.iterdir()):
            raise RunFolderError(f"{path} is not empty", fix="give an empty or new folder as --out")
        parent = folder.path
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise RunFolderError(f"can't write to {path}: {parent} is not a writable folder", fix="give another --out")
        return folder

    @classmethod
    def existing(cls, path: str | Path) -> RunFolder:
        """A folder that holds a run; raises `RunFolderError`."""
        folder = cls(path)
        if not folder.run_file.is_file():
            raise RunFolderError(
                f"{path} holds no run (no run.toml)", fix="give the folder that a run printed at its start"
            )
        return folder

    def make(self, run_toml: str, environment: Mapping[str, Any], objective: str = "") -> None:
        """Write what stands at a run's start."""
        try:
            for folder in (self.path, self.rollouts, self.evaluations, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.environment, json.dumps(environment, indent=2) + "\n")
            write_atomically(self.objective, objective)
            write_atomically(self.run_file, run_toml)
        except OSError as error:
            raise RunFolderError(f"can't write to {self.path}: {error.strerror}", fix="give another --out") from error


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's text, so that a reader sees the old or the new one, whole."""
    aside = path.with_name(f".{path.name}.new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
