"""`groupwise doctor` on recorded runs, as they are and spoilt."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import groupwise.cli.doctor  # noqa: F401 (registers the command)
from groupwise.cli import app

HISTORY = Path(__file__).parents[1] / "data" / "histories" / "sums-0.jsonl.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with the metrics of a healthy run."""
    (tmp_path / "run.toml").write_text("")
    (tmp_path / "metrics.jsonl").write_bytes(gzip.decompress(HISTORY.read_bytes()))
    return tmp_path


def spoil(folder: Path, start: int) -> None:
    """No signal in the steps from this one on; the last line is torn by a crash."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        if row["step"] >= start and "eval" not in row:
            row["status"] = "no signal"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 99, "st')


def test_a_healthy_run_is_said_to_be_well_with_what_was_looked_at(folder: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", str(folder)])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "All is well: in 98 steps none of 15 alarms found anything."
    assert max(map(len, lines)) <= 80
    assert "Looked at: entropy-collapse" in result.stdout and "numbers: kl-blow-up (kl_k3)" in result.stdout
    told = json.loads(CliRunner().invoke(app, ["doctor", str(folder), "--json"]).stdout)
    assert told["findings"] == [] and told["steps"] == 98 and len(told["checked"]) == 15


def test_a_run_with_a_finding_ends_with_status_1(folder: Path) -> None:
    spoil(folder, 60)
    result = CliRunner().invoke(app, ["doctor", str(folder)])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:3] == ["Serious", "", "no-signal in 1-grpo, since step 60 (said at step 63, still so at the end)"]
    assert lines[3].startswith("  seen  4 of the last 8 steps had no gradient") and max(map(len, lines)) <= 80
    told = CliRunner().invoke(app, ["doctor", str(folder), "--json"])
    assert told.exit_code == 1
    (finding,) = json.loads(told.stdout)["findings"]
    assert (finding["alarm"], finding["since"], finding["step"], finding["until"]) == ("no-signal", 60, 63, None)


def test_a_run_without_steps_yet_is_not_called_well_for_nothing(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()
    result = CliRunner().invoke(app, ["doctor", str(folder)])
    assert result.exit_code == 0
    assert result.stdout == "No step is recorded yet.\n"


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", str(tmp_path)])
    assert result.exit_code == 2 and "holds no run" in result.stderr
