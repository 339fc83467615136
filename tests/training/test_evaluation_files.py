"""A resumed run takes an evaluation's row for proof that its completions are recorded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.display import Silent

FEW = ["stages.0.steps=1", "stages.1.steps=1", "evaluation.prompts=3", "evaluation.samples=1"]


def test_R082_an_evaluation_s_file_is_there_before_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, append, seen = ledger.write, metrics.append, []

    def slowly(*arguments: Any, **options: Any) -> None:
        time.sleep(0.2)
        write(*arguments, **options)

    def appended(path: Path, row: Any) -> None:
        if "eval" in row and path.name == "metrics.jsonl":
            seen.append(ledger.file_of(path.parent / "evaluations", row["step"]).is_file())
        append(path, row)

    monkeypatch.setattr(ledger, "write", slowly)
    monkeypatch.setattr(metrics, "append", appended)
    groupwise.train("sums_from_scratch", overrides=FEW, out=tmp_path / "run", display=Silent())
    assert len(seen) >= 2 and all(seen)
