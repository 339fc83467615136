"""Checkpoints are complete or absent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_runs import ROWS, Lines, coin, metric_rows, outcome, same, tiny

import groupwise
from groupwise.errors import RunFolderError
from groupwise.training import checkpoint


def write(folder: Path, step: int, text: str = "weights") -> Path:
    return checkpoint.write(folder, step, lambda path: (path / "model").write_text(f"{text} {step}") and None)


def test_the_newest_complete_checkpoint_is_found(tmp_path: Path) -> None:
    for step in (2, 10, 9):
        write(tmp_path, step)
    said: list[str] = []
    assert checkpoint.newest(tmp_path, said.append) == (10, tmp_path / "step-10")
    assert said == []
    assert checkpoint.newest(tmp_path / "nowhere", said.append) is None


def _truncate(path: Path) -> None:
    (path / "model").write_text("wei")


def _change(path: Path) -> None:
    (path / "model").write_text("WEIGHTS 2")


def _lose(path: Path) -> None:
    (path / "model").unlink()


def _unseal(path: Path) -> None:
    (path / checkpoint.SEAL).unlink()


def _tear(path: Path) -> None:
    (path / checkpoint.SEAL).write_text('{"model": {"by')


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_truncate, "model has 3 bytes instead of 9"),
        (_change, "model has changed"),
        (_lose, "model is missing"),
        (_unseal, "it was never completed"),
        (_tear, "complete.json can't be read"),
    ],
)
def test_R082_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path, harm, message: str) -> None:
    write(tmp_path, 1)
    harm(write(tmp_path, 2))
    said: list[str] = []
    assert checkpoint.newest(tmp_path, said.append) == (1, tmp_path / "step-1")
    assert said == [f"checkpoint step-2 is skipped: {message}"]


def test_R082_a_half_written_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 1)

    def die(path: Path) -> None:
        (path / "model").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, 2, die)
    assert (tmp_path / ".step-2.new").is_dir()
    assert checkpoint.newest(tmp_path, print) == (1, tmp_path / "step-1")
    write(tmp_path, 2, "again")
    assert (tmp_path / "step-2/model").read_text() == "again 2"
    assert not (tmp_path / ".step-2.new").exists()


def test_a_damaged_checkpoint_is_replaced_when_its_step_is_saved_again(tmp_path: Path) -> None:
    _truncate(write(tmp_path, 2))
    write(tmp_path, 2, "again")
    assert checkpoint.damage(tmp_path / "step-2") is None


def test_pruning_keeps_the_newest_and_the_protected(tmp_path: Path) -> None:
    for step in range(1, 8):
        write(tmp_path, step)
    (tmp_path / ".step-3.new").mkdir()
    (tmp_path / "step-notes").mkdir()
    checkpoint.prune(tmp_path, 2, {2, 4})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-2", "step-4", "step-6", "step-7", "step-notes"]


def test_R082_a_run_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before(tmp_path: Path) -> None:
    run = tiny(steps=4, checkpoint={"every": 1})
    whole = groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "whole", display=Lines()).folder
    out = tmp_path / "damaged"
    shutil.copytree(whole, out)
    weights = out / "checkpoints/step-4/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (out / "checkpoints/.step-5.new").mkdir()
    lines = Lines()
    result = groupwise.resume(out, prompts=ROWS, rewards=[coin()], display=lines)
    assert "checkpoint step-4 is skipped: model.safetensors has 1000 bytes instead of" in lines.text
    assert "resumed from step 3" in lines.lines
    assert result.steps == 4
    same(outcome(whole, 4), outcome(out, 4))
    assert not (out / "checkpoints/.step-5.new").exists()


def test_checkpoints_are_kept_as_asked_and_at_the_ends_of_stages(tmp_path: Path) -> None:
    stages = [{"steps": 2, "algorithm": "sft"}, {"steps": 5}]
    run = {key: value for key, value in tiny(checkpoint={"every": 1, "keep": 2}).items() if key != "steps"}
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    out = tmp_path / "run"
    groupwise.train({**run, "stages": stages}, prompts=rows, rewards=[coin()], out=out, display=Lines())
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["step-2", "step-6", "step-7"]


def test_only_the_end_is_saved_unless_more_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    groupwise.train(tiny(steps=3), prompts=ROWS, rewards=[coin()], out=out, display=Lines())
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-3"]
    assert len(metric_rows(out)) == 3
    seal = json.loads((out / "checkpoints/step-3/complete.json").read_text())
    assert {"model.safetensors", "optimizer-policy.pt", "trainer.json", "config.json", "tokenizer.json"} <= set(seal)


def test_a_checkpoint_is_a_plain_model_folder(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "run"
    groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=out, display=Lines())
    folder = out / "checkpoints/step-2"
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = AutoTokenizer.from_pretrained(folder)("1+1=", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("1", r"has no checkpoint of step 1; use another one: checkpoints are there for steps 2"),
        ("best", "has no evaluation after training began; give a step: checkpoints are there for steps 2"),
        ("newest", "--step 'newest' is not a step; use a number, best or last"),
    ],
)
def test_export_names_the_checkpoints_that_are_there(tmp_path: Path, step: str, message: str) -> None:
    from groupwise.training.exporting import export_run

    out = groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    with pytest.raises(RunFolderError, match=message):
        export_run(out, tmp_path / "model", step)
    assert not (tmp_path / "model").exists()


def test_export_refuses_a_damaged_checkpoint(tmp_path: Path) -> None:
    from groupwise.training.exporting import export_run

    out = groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    (out / "checkpoints/step-2/model.safetensors").unlink()
    with pytest.raises(RunFolderError, match="step-2 can't be used: model.safetensors is missing"):
        export_run(out, tmp_path / "model", "2")
    with pytest.raises(RunFolderError, match="has no complete checkpoint; resume it with --resume"):
        export_run(out, tmp_path / "model", "last")
