"""Alarms while a run goes on: said once, kept, and where they end it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import ROWS, Lines, always, coin, metric_rows, tiny

import groupwise


def said(folder: Path) -> list[dict]:
    path = folder / "alarms.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def fades() -> Callable[[Any], bool]:
    """A reward that tells completions apart in the first six steps of eight completions, and then no more."""
    calls: list[Any] = []

    def reward(record: Any) -> bool:
        calls.append(record)
        return len(calls) > 6 * 8 or coin()(record)

    return reward


def test_a_finding_is_said_once_and_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    lines = Lines()
    result = groupwise.train(tiny(steps=9), prompts=ROWS, rewards=[always(1.0)], out=tmp_path / "run", display=lines)
    assert result.finished and result.stopped_by is None and result.step_before_alarm is None
    assert [(row["alarm"], row["step"], row["since"], row["until"]) for row in said(tmp_path / "run")] == [
        ("no-signal", 4, 1, None),
        ("truncation", 8, 1, None),
        ("dead-groups", 8, 1, None),
    ]
    told = [line for line in lines.lines if "no-signal" in line]
    assert len(told) == 1 and told[0].startswith("step 4: serious: no-signal since step 1: 4 of the last 4 steps")


def test_alarms_can_be_off(tmp_path: Path) -> None:
    lines = Lines()
    run = tiny(steps=6, alarms={"on": False})
    groupwise.train(run, prompts=ROWS, rewards=[always(1.0)], out=tmp_path / "run", display=lines)
    assert said(tmp_path / "run") == [] and "no-signal" not in lines.text


def test_an_alarm_ends_the_run_in_order_and_resuming_goes_on(tmp_path: Path) -> None:
    """Signal for six steps, then none: the checkpoint from before outlives what pruning would leave."""
    folder = tmp_path / "run"
    checkpoints = {"every": 2, "keep": 1}
    run = tiny(steps=16, alarms={"stop": ["no-signal"]}, checkpoint=checkpoints, optimizer={"learning_rate": 1e-5})
    result = groupwise.train(run, prompts=ROWS, rewards=[fades()], out=folder, display=Lines())
    (finding,) = [row for row in said(folder) if row["alarm"] == "no-signal"]
    assert not result.finished and result.interrupted_by is None
    assert result.stopped_by is not None and result.stopped_by.to_json() == finding
    assert result.steps == finding["step"] == len(metric_rows(folder)) == 10 and finding["since"] == 7
    assert (folder / "checkpoints" / "step-10" / "complete.json").is_file()
    lines = Lines()
    resumed = groupwise.resume(folder, prompts=ROWS, rewards=[always(1.0)], display=lines)
    assert resumed.finished and resumed.steps == 16
    assert [row for row in said(folder) if row["alarm"] == "no-signal"] == [finding]
    assert "no-signal" not in lines.text


def test_the_checkpoint_from_before_a_finding_is_kept_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = tiny(
        steps=16, alarms={"stop": ["no-signal"]}, checkpoint={"every": 6, "keep": 1}, optimizer={"learning_rate": 1e-5}
    )
    result = groupwise.train(run, prompts=ROWS, rewards=[fades()], out=folder, display=Lines())
    assert result.step_before_alarm == 6
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-10", "step-6"]


@pytest.mark.parametrize("stop", [["no-such"], "truncation"])
def test_a_stop_list_that_is_none_fails_before_anything_is_loaded(stop: object, tmp_path: Path) -> None:
    with pytest.raises(groupwise.errors.RunFileError, match="alarms.stop|no alarm 'no-such'"):
        groupwise.train(tiny(alarms={"stop": stop}), prompts=ROWS, rewards=[coin()], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
