"""Run folders: never written over, and read when there is something to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupwise.errors import RunFolderError
from groupwise.telemetry.run_folder import RunFolder, write_atomically


def test_a_new_folder_is_made_only_when_asked(tmp_path: Path) -> None:
    folder = RunFolder.check_free(tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    folder.make("steps = 1\n", {"threads": 2})
    assert folder.run_file.read_text() == "steps = 1\n"
    assert json.loads(folder.environment.read_text()) == {"threads": 2}
    assert {path.name for path in folder.path.iterdir()} == {
        "run.toml", "environment.json", "objective.txt", "rollouts", "evaluations", "checkpoints",
    }  # fmt: skip
    assert RunFolder.existing(tmp_path / "deep" / "run").path == folder.path


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    RunFolder.check_free(tmp_path).make("", {})
    with pytest.raises(RunFolderError, match="already holds a run"):
        RunFolder.check_free(tmp_path)


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is not a writable folder; give another --out"):
        RunFolder.check_free(tmp_path / "file" / "run")
    with pytest.raises(RunFolderError, match="can't write to .*; give another --out"):
        RunFolder(tmp_path / "file" / "run").make("", {})


def test_a_text_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "text"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["text"]
