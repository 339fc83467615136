"""What `groupwise train` prints: with --quiet errors and the end alone, and nothing of libraries either way."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

CLI = "from groupwise.cli import app; app()"
RUN = """
steps = 2
model = { name = "builtin:tiny-char", dtype = "float32" }
algorithm = "grpo"
task = "sums"
prompts = { per_step = 2 }
sampling = { group_size = 4, max_tokens = 4 }
evaluation = { prompts = 2 }
"""


def run(folder: Path, *options: str, terminal: bool = False) -> tuple[int, str, str]:
    """Exit status and what came out, on a terminal of 80 columns or not; standard error by itself."""
    file = folder / "mine.toml"
    file.write_text(RUN)
    command = [sys.executable, "-c", CLI, "train", str(file), "--out", str(folder / "run"), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "LINES": "40", "TERM": "xterm"}
    if not terminal:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    _, errors = process.communicate(timeout=60)
    return process.returncode, shown.decode(), errors


def test_quiet_prints_the_end_alone(tmp_path: Path) -> None:
    status, printed, errors = run(tmp_path, "--quiet")
    assert status == 0 and errors == ""
    assert printed.splitlines()[0].startswith("What changed") and "run folder: " in printed
    assert "step 1" not in printed and "evaluation at" not in printed and "task sums" not in printed


def test_quiet_prints_errors(tmp_path: Path) -> None:
    status, printed, errors = run(tmp_path, "--quiet", "--set", "model=builtin:nothing")
    assert status == 2 and printed == "" and errors.startswith("error: ") and errors.count("\n") == 1


@pytest.mark.slow
def test_on_a_terminal_there_is_a_table_within_80_columns_and_no_word_of_a_library(tmp_path: Path) -> None:
    status, shown, errors = run(tmp_path, terminal=True)
    assert status == 0 and errors == ""
    assert "0-grpo   step 2 of 2" in shown and "grad norm" in shown
    for noise in ("Warning", "warning", "it/s", "Loading weights", "deprecated"):
        assert noise not in shown
