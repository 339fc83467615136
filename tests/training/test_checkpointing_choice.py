"""Gradient checkpointing is decided once per run, by the memory that is free at its start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import ROWS, Lines, coin, outcome, same, tiny

import groupwise
from groupwise.models import checkpointing, loading

ENOUGH, NOTHING = 10**12, 10**6


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let this be what is free from now on."""
    monkeypatch.setattr(loading, "free_memory", lambda device: size)


@pytest.fixture
def recomputed(monkeypatch: pytest.MonkeyPatch) -> list:
    """A list that grows with every layer that is computed under checkpointing."""
    seen: list = []
    plain = checkpointing.checkpoint
    monkeypatch.setattr(checkpointing, "checkpoint", lambda *args, **kwargs: seen.append(1) or plain(*args, **kwargs))
    return seen


def train(run: dict, out: Path) -> Lines:
    lines = Lines()
    groupwise.train(run, prompts=ROWS, rewards=[coin()], out=out, display=lines)
    return lines


def recorded(out: Path) -> bool:
    return json.loads((out / "environment.json").read_text())["gradient_checkpointing"]


def test_memory_decides_and_the_choice_is_said_and_recorded(tmp_path, monkeypatch, recomputed):
    free(monkeypatch, ENOUGH)
    lines = train(tiny(), tmp_path / "enough")
    assert not recorded(tmp_path / "enough") and not recomputed
    assert sum(line.startswith("gradient checkpointing off: the update needs ") for line in lines.lines) == 1
    free(monkeypatch, NOTHING)
    lines = train(tiny(), tmp_path / "nothing")
    assert recorded(tmp_path / "nothing") and recomputed
    assert sum(line.startswith("gradient checkpointing on: without it ") for line in lines.lines) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_what_the_run_file_says_holds(tmp_path, monkeypatch, recomputed, asked):
    free(monkeypatch, ENOUGH if asked else NOTHING)
    lines = train(tiny(model={"gradient_checkpointing": asked}), tmp_path / "run")
    assert recorded(tmp_path / "run") is asked and bool(recomputed) is asked
    assert "gradient checkpointing" not in lines.text


@pytest.mark.parametrize(("first", "later"), [(NOTHING, ENOUGH), (ENOUGH, NOTHING)])
def test_a_resumed_run_keeps_the_choice_that_it_began_with(tmp_path, monkeypatch, recomputed, first, later):
    run = tiny(steps=4, checkpoint={"every": 2, "keep": 9})
    free(monkeypatch, first)
    train(run, tmp_path / "unbroken")
    train(run, tmp_path / "broken")
    (tmp_path / "broken/checkpoints/step-4/complete.json").unlink()
    free(monkeypatch, later)
    recomputed.clear()
    lines = Lines()
    groupwise.resume(tmp_path / "broken", prompts=ROWS, rewards=[coin()], display=lines)
    assert "resumed from step 2" in lines.text and "not bit for bit" not in lines.text
    assert bool(recomputed) is (first == NOTHING)
    same(outcome(tmp_path / "unbroken", 4), outcome(tmp_path / "broken", 4))


def test_stages_are_decided_together_by_the_largest(tmp_path, monkeypatch):
    """Demonstrations of a few tokens need little; the stage that samples needs more, and both have one model."""
    seen: list = []
    plain = checkpointing.choose
    monkeypatch.setattr(checkpointing, "choose", lambda works, free: seen.append(works) or plain(works, free))
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    stages = [{"algorithm": "sft"}, {"algorithm": {"name": "grpo", "beta": 0.1}}]
    run = {**{key: value for key, value in tiny(steps=1).items() if key != "algorithm"}, "stages": stages}
    groupwise.train(run, prompts=rows, rewards=[coin()], out=tmp_path / "run", display=Lines())
    ((written, sampled),) = seen
    assert not written.reference and sampled.reference
    assert written.packing.tokens < sampled.packing.tokens <= 2 * (5 + 4 * 4)
