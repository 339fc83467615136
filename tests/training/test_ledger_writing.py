"""What the ledger holds of a rollout, by way of whole runs; and what becomes of a run that can't write it."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import ROWS, Lines, always, coin, metric_rows, rollouts, tiny

import groupwise
from groupwise.errors import RunFolderError
from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import ModelSettings
from groupwise.packing import pack, take
from groupwise.telemetry import ledger
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training.ledger_writing import LedgerWriter, RolloutRecord
from groupwise.training.minibatches import Minibatch
from groupwise.types import Completion, Group, Prompt, Score, Segment


def ran(out: Path, reward: Any = None, **changes: Any) -> list[dict[str, Any]]:
    """The ledger's rows of a run."""
    groupwise.train(tiny(**changes), prompts=ROWS, rewards=[reward or coin()], out=out, display=Lines())
    return rollouts(out)


def test_with_one_update_and_no_kl_the_coefficient_is_the_advantage(tmp_path: Path) -> None:
    rows = ran(tmp_path / "run", steps=3)
    assert any(value != 0 for row in rows for value in row["coefficients"])
    for row in rows:
        assert row["coefficients"] == pytest.approx(row["advantages"], abs=1e-6)
        assert len(row["coefficients"]) == len(row["token_texts"]) == len(row["token_ids"])
        assert "".join(row["token_texts"]) == row["completion"]


def test_with_several_updates_the_coefficient_is_that_of_the_first(tmp_path: Path) -> None:
    """The policy has moved by the second minibatch, so its ratios are no longer 1, but clip_high bounds them; in the
    second epoch every ratio has moved, which would show in the first minibatch."""
    rows = ran(tmp_path / "run", steps=4, updates={"epochs": 2, "minibatches": 2}, optimizer={"learning_rate": 1e-2})
    assert len(rows) == 8
    exact = {row["group_id"]: row["coefficients"] == pytest.approx(row["advantages"], abs=1e-6) for row in rows}
    assert list(exact.values()).count(True) == 1, "one of two groups was trained on before the policy had moved"
    for row in rows:
        if any(row["advantages"]):
            assert row["coefficients"] != [0.0] * len(row["advantages"])


def test_the_kl_in_the_loss_is_part_of_the_coefficient(tmp_path: Path) -> None:
    """Tied groups have advantages of 0, and once the policy has left the reference a coefficient all the same."""
    settings: dict[str, Any] = {"algorithm": {"beta": 0.5}, "optimizer": {"learning_rate": 1e-2}}
    rows = ran(tmp_path / "run", steps=4, **settings)
    later = [row for row in rows if row["step"] > 1]
    assert any(abs(c - a) > 1e-4 for row in later for c, a in zip(row["coefficients"], row["advantages"], strict=True))


def test_demonstrations_have_a_coefficient_of_one(tmp_path: Path) -> None:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    run = tiny(algorithm={"name": "sft"})
    del run["algorithm"]["beta"]
    folder = groupwise.train(run, prompts=rows, out=tmp_path / "run", display=Lines()).folder
    for row in rollouts(folder):
        assert row["coefficients"] == [1.0] * len(row["token_ids"])


def test_completions_in_the_loss_without_a_gradient_have_coefficients_of_zero(tmp_path: Path) -> None:
    run = tiny(algorithm={"name": "online_rft", "accept_truncated": True}, steps=3)
    del run["algorithm"]["beta"]
    folder = groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    rows = rollouts(folder)
    assert {row["correct"] for row in rows} == {True, False}
    for row in rows:
        assert row["coefficients"] == [float(row["correct"])] * len(row["token_ids"])


def test_what_is_not_trained_on_has_no_numbers_and_the_others_keep_their_own(tmp_path: Path) -> None:
    """Of one group the second and fourth completion are trained on, the other group is dropped."""
    folder = RunFolder(tmp_path)
    folder.rollouts.mkdir()
    prompt = Prompt("p", (1,), "x")
    made = [Completion((Segment((10 + n, 20 + n), (-1.0, -1.0)),), "stop") for n in range(4)]
    group = Group("p#0", prompt, tuple(made), (Score(1.0),) * 4)
    other = Group("q#0", prompt, tuple(made), (Score(1.0),) * 4)
    part = replace(group, completions=(made[1], made[3]), scores=group.scores[:2])
    batch = pack([part], temperature=1.0)
    batch = replace(batch, advantages=batch.token_ids / 2)
    writer = LedgerWriter(folder, load_tokenizer(ModelSettings(name="builtin:tiny-char")), 10, [])
    with RolloutRecord(writer, 1, "0-x", [group, other], [part], batch, {"q#0": "tied"}) as record:
        record.updated(Minibatch([1], take(batch, [1])), torch.tensor([0.0, 5.0, 6.0]))
    writer.background.flush()
    rows = rollouts(tmp_path)
    assert [row["advantages"] for row in rows] == [None, [5.5, 10.5], None, [6.5, 11.5], None, None, None, None]
    assert [row["coefficients"] for row in rows] == [None, None, None, [5.0, 6.0], None, None, None, None]


def test_a_step_without_signal_has_coefficients_of_zero(tmp_path: Path) -> None:
    (row, *_) = ran(tmp_path / "run", always(1.0), steps=1)
    assert row["coefficients"] == [0.0] * len(row["token_ids"])


def test_R080_old_files_are_dropped_above_the_cap_which_is_said_once_and_counted(tmp_path: Path) -> None:
    out, lines = tmp_path / "run", Lines()
    run = tiny(steps=6, ledger={"max_mb": 0})
    groupwise.train(run, prompts=ROWS, rewards=[coin()], out=out, display=lines)
    assert [path.name for path in sorted((out / "rollouts").iterdir())] == ["step-000006.parquet"]
    assert sum("ledger.max_mb" in line for line in lines.lines) == 1
    counts = [row["ledger_dropped_steps"] for row in metric_rows(out)]
    assert counts == sorted(counts) and 3 <= counts[-1] <= 5, "a file is counted once it is gone"


def test_a_resumed_run_goes_on_counting_the_dropped_files(tmp_path: Path) -> None:
    out, lines = tmp_path / "run", Lines()
    run = tiny(steps=6, ledger={"max_mb": 0}, checkpoint={"every": 2, "keep": 5})
    groupwise.train(run, prompts=ROWS, rewards=[coin()], out=out, display=lines)
    shutil.rmtree(out / "checkpoints/step-6")
    groupwise.resume(out, prompts=ROWS, rewards=[coin()], display=lines)
    assert [path.name for path in sorted((out / "rollouts").iterdir())] == ["step-000006.parquet"]
    assert 4 <= metric_rows(out)[-1]["ledger_dropped_steps"] <= 5
    assert sum("ledger.max_mb" in line for line in lines.lines) == 1, "what a run has said it doesn't say again"


def test_a_full_disk_ends_the_run_with_an_error_that_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ledger, "write", full)
    with pytest.raises(RunFolderError, match=r"can't write .*step-000001\.parquet: No space left.*--resume") as caught:
        ran(tmp_path / "run", steps=6)
    assert "\n" not in str(caught.value)


def test_a_rollout_whose_training_fails_stands_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from groupwise.training.update import Update

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Update, "step", broken)
    with pytest.raises(ZeroDivisionError):
        ran(tmp_path / "run")
    rows = rollouts(tmp_path / "run")
    assert len(rows) == 8 and all(row["kept"] and row["coefficients"] is None for row in rows)


def test_the_loop_waits_little_for_its_recording_and_says_how_long(tmp_path: Path) -> None:
    ran(tmp_path / "run", steps=3)
    for row in metric_rows(tmp_path / "run"):
        assert row["seconds"]["record"] >= 0 and row["ledger_seconds"] >= 0
    assert sum(row["ledger_seconds"] for row in metric_rows(tmp_path / "run")) > 0
