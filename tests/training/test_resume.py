"""A run that stops and is resumed is the run that never stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_runs import ROWS, Lines, coin, metric_rows, outcome, rollouts, same, tiny

import groupwise
from groupwise.errors import DataError, RunFolderError
from groupwise.training.trainer import Trainer


class Killed(BaseException):
    """Ends training as a kill does: nothing that handles errors sees it."""


def train(run: dict, out: Path, rows: list = ROWS, **more) -> groupwise.Result:
    return groupwise.train(run, prompts=rows, rewards=[coin()], out=out, display=Lines(), **more)


def killed_after(step: int, monkeypatch: pytest.MonkeyPatch, run: dict, out: Path, rows: list = ROWS, **more) -> None:
    """Train, and be gone when the next step's rollout would begin."""
    plain = Trainer.step

    def step_or_die(self: Trainer, stage) -> bool:
        if self.progress.step == step:
            raise Killed
        return plain(self, stage)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Trainer, "step", step_or_die)
        train(run, out, rows, **more)


def resume(out: Path, rows: list = ROWS, **more) -> tuple[groupwise.Result, Lines]:
    lines = Lines()
    return groupwise.resume(out, prompts=rows, rewards=[coin()], display=lines, **more), lines


def test_R010_a_resumed_run_is_the_unbroken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny(steps=8, checkpoint={"every": 1}, optimizer={"warmup_steps": 3, "schedule": "cosine"})
    train(run, tmp_path / "unbroken")
    killed_after(4, monkeypatch, run, tmp_path / "broken")
    result, lines = resume(tmp_path / "broken")
    assert "resumed from step 4" in lines.lines
    assert result.finished and result.steps == 8
    same(outcome(tmp_path / "unbroken", 8), outcome(tmp_path / "broken", 8))
    rows = metric_rows(tmp_path / "broken")
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert any(row["grad_norm"] > 0 for row in rows[4:])  # there was something to get wrong


def test_R010_what_was_recorded_after_the_checkpoint_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny(steps=6, checkpoint={"every": 4})
    train(run, tmp_path / "unbroken")
    out = tmp_path / "broken"
    killed_after(5, monkeypatch, run, out)
    assert len(metric_rows(out)) == 5 and (out / "rollouts/step-000005.parquet").exists()
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "stage": "0-gr')  # torn by the crash
    seen = []
    monkeypatch.setattr(Trainer, "enter", _spy(Trainer.enter, lambda: seen.append(_recorded(out))))
    resume(out)
    assert seen == [([1, 2, 3, 4], ["step-000001", "step-000002", "step-000003", "step-000004"])]
    same(outcome(tmp_path / "unbroken", 6), outcome(out, 6))


def _recorded(out: Path) -> tuple[list[int], list[str]]:
    return [row["step"] for row in metric_rows(out)], sorted(path.stem for path in (out / "rollouts").iterdir())


def _spy(plain, look):
    def spied(self):
        look()
        return plain(self)

    return spied


def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny(steps=3, evaluation={"prompts": 2, "every": 1})
    train(run, tmp_path / "unbroken", test_prompts=ROWS[:2])
    out = tmp_path / "broken"
    killed_after(0, monkeypatch, run, out, test_prompts=ROWS[:2])
    _, lines = resume(out, test_prompts=ROWS[:2])
    assert "resumed from step 0" in lines.lines
    same(outcome(tmp_path / "unbroken", 3), outcome(out, 3))


def test_R046_a_run_saved_at_the_end_of_an_epoch_goes_on_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rows = tiny(steps=6, checkpoint={"every": 3}), ROWS[:6]
    train(run, tmp_path / "unbroken", rows)
    killed_after(3, monkeypatch, run, tmp_path / "broken", rows)
    result, lines = resume(tmp_path / "broken", rows)
    assert "resumed from step 3" in lines.lines
    assert result.finished and result.steps == 6
    visits = {(row["prompt_id"], row["visit"]) for row in rollouts(tmp_path / "broken") if row["step"] > 3}
    assert visits == {(f"row-{n}", 1) for n in range(6)}
    same(outcome(tmp_path / "unbroken", 6), outcome(tmp_path / "broken", 6))


STAGES = tiny(
    checkpoint={"every": 1, "keep": 2},
    stages=[
        {"algorithm": {"name": "sft"}, "steps": 2},
        {"algorithm": {"name": "grpo", "beta": 0.5}, "steps": 5},
    ],
)
DEMONSTRATIONS = [{**row, "completion": row["answer"]} for row in ROWS]


def _without_shared(run: dict) -> dict:
    return {key: value for key, value in run.items() if key not in ("steps", "algorithm")}


@pytest.mark.parametrize("step", [1, 2, 5], ids=["in the first stage", "between the stages", "in the second stage"])
def test_a_run_of_two_stages_is_resumed_with_the_reference_of_its_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    run, rows = _without_shared(STAGES), DEMONSTRATIONS
    train(run, tmp_path / "unbroken", rows)
    killed_after(step, monkeypatch, run, tmp_path / "broken", rows)
    _, lines = resume(tmp_path / "broken", rows)
    assert f"resumed from step {step}" in lines.lines
    same(outcome(tmp_path / "unbroken", 7), outcome(tmp_path / "broken", 7))
    second = [row for row in metric_rows(tmp_path / "broken") if row["stage"] == "1-grpo"]
    assert second[0]["kl_k3"] == 0  # the reference is the policy that the stage began with
    assert second[-1]["kl_k3"] > 0  # and stays there


def test_a_reference_whose_checkpoint_is_gone_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(5, monkeypatch, _without_shared(STAGES), tmp_path / "run", DEMONSTRATIONS)
    (tmp_path / "run/checkpoints/step-2/model.safetensors").unlink()
    with pytest.raises(
        RunFolderError, match="the reference of this stage .*step-2 can't be used: model.safetensors is"
    ):
        resume(tmp_path / "run", DEMONSTRATIONS)


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    before = outcome(tmp_path / "run", 2)
    result, lines = resume(tmp_path / "run")
    assert result.finished and result.steps == 2
    assert "resumed from step 2" in lines.lines and "nothing is left to do: all 2 steps are done" in lines.lines
    assert outcome(tmp_path / "run", 2) == before


def test_a_run_file_given_too_must_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(2, monkeypatch, tiny(steps=3, checkpoint={"every": 1}), tmp_path / "run")
    stored = (tmp_path / "run/run.toml").read_text()
    changed = tmp_path / "changed.toml"
    changed.write_text(stored.replace("learning_rate = 0.001", "learning_rate = 0.002"))
    with pytest.raises(RunFolderError, match=r"optimizer\.learning_rate: 0\.001 -> 0\.002"):
        resume(tmp_path / "run", run=changed)
    assert len(metric_rows(tmp_path / "run")) == 2
    result, _ = resume(tmp_path / "run", run=tmp_path / "run/run.toml")
    assert result.steps == 3


def test_the_recorded_number_of_threads_is_used_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    killed_after(1, monkeypatch, tiny(checkpoint={"every": 1}), tmp_path / "run")
    torch.set_num_threads(2)
    _, lines = resume(tmp_path / "run")
    assert "using 1 threads as this run did before, not 2" in lines.lines
    assert torch.get_num_threads() == 1
    assert "not bit for bit" not in lines.text


def test_other_conditions_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(1, monkeypatch, tiny(checkpoint={"every": 1}), tmp_path / "run")
    path = tmp_path / "run/environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"torch": "2.0.0"}))
    _, lines = resume(tmp_path / "run")
    assert f"not bit for bit: torch 2.0.0 -> {torch.__version__}" in lines.text


def test_rows_given_from_python_must_be_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(1, monkeypatch, tiny(checkpoint={"every": 1}), tmp_path / "run")
    with pytest.raises(DataError, match="given from Python.*with prompts="):
        groupwise.resume(tmp_path / "run", rewards=[coin()], display=Lines())
    assert len(metric_rows(tmp_path / "run")) == 1


def test_R010_other_rows_than_those_of_the_run_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(1, monkeypatch, tiny(checkpoint={"every": 1}), tmp_path / "run")
    with pytest.raises(DataError, match="the 7 prompts of stage 0 are not those"):
        resume(tmp_path / "run", ROWS[:7])


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"holds no run \(no run\.toml\); give the folder"):
        groupwise.resume(tmp_path, display=Lines())
