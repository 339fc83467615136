"""RFT in whole runs: samples drawn once, written down, and trained on as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from test_resume import killed_after, resume, train
from tiny_runs import metric_rows, outcome, rollouts, same, tiny

from groupwise.errors import DataError, RunFileError, TrainingError
from groupwise.sources.contract import Gathered
from groupwise.sources.live import Sampler
from groupwise.training.update import Update
from groupwise.types import Prompt

STEPS = 6
RUN = tiny(
    steps=STEPS, prompts={"per_step": 3}, checkpoint={"every": 2}, sampling={"group_size": 12, "max_tokens": 2}
) | {"algorithm": {"name": "rft", "max_per_prompt": 2, "accept_truncated": True}}


def samples(folder: Path) -> list[dict[str, Any]]:
    return parquet.read_table(folder / "samples/stage-0.parquet").to_pylist()


def test_samples_are_drawn_once_from_the_policy_as_it_was_and_the_right_ones_are_trained_on(tmp_path: Path) -> None:
    folder = train(RUN, tmp_path / "run").folder
    drawn = samples(folder)
    assert len(drawn) == 10 * 12 and {row["policy_version"] for row in drawn} == {0}
    assert [row["tokens_sampled"] for row in metric_rows(folder)] == [
        sum(len(row["token_ids"]) for row in drawn), 0, 0, 0, 0, 0,
    ]  # fmt: skip
    trained = rollouts(folder)
    for step in range(1, STEPS + 1):
        mine = [row for row in trained if row["step"] == step]
        assert len({row["group_id"] for row in mine}) == 3
        for group in {row["group_id"] for row in mine}:
            texts = [row["completion"].removesuffix("<eos>") for row in mine if row["group_id"] == group]
            right = [
                row["completion"].removesuffix("<eos>") for row in drawn if row["group_id"] == group and row["correct"]
            ]
            assert texts == list(dict.fromkeys(right))[:2]
    assert all(row["correct"] for row in trained)


def gathered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of prompts of each time that something is sampled to train on."""
    seen: list[int] = []
    plain = Sampler.gather

    def gather(self: Sampler, prompts: Sequence[tuple[Prompt, int]]) -> Gathered:
        seen.extend([len(prompts)] if self.purpose == "train" else [])
        return plain(self, prompts)

    monkeypatch.setattr(Sampler, "gather", gather)
    return seen


def test_a_run_that_is_resumed_goes_on_with_the_samples_that_it_drew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = gathered(monkeypatch)
    train(RUN, tmp_path / "unbroken")
    killed_after(4, monkeypatch, RUN, tmp_path / "broken")
    file = tmp_path / "broken/samples/stage-0.parquet"
    before = file.read_bytes(), file.stat().st_mtime_ns
    assert drawn == [10, 10]
    _, lines = resume(tmp_path / "broken")
    assert "resumed from step 4" in lines.lines
    assert drawn == [10, 10] and (file.read_bytes(), file.stat().st_mtime_ns) == before
    same(outcome(tmp_path / "unbroken", STEPS), outcome(tmp_path / "broken", STEPS))


def test_a_run_killed_after_sampling_and_before_its_first_checkpoint_draws_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = gathered(monkeypatch)
    train(RUN, tmp_path / "unbroken")
    killed_after(1, monkeypatch, RUN, tmp_path / "broken")
    _, lines = resume(tmp_path / "broken")
    assert "resumed from step 0" in lines.lines and drawn == [10, 10]
    same(outcome(tmp_path / "unbroken", STEPS), outcome(tmp_path / "broken", STEPS))


def test_another_run_trains_on_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = gathered(monkeypatch)
    train(RUN, tmp_path / "first")
    file = tmp_path / "first/samples/stage-0.parquet"
    train(RUN | {"samples": str(file)}, tmp_path / "second")
    assert drawn == [10]
    assert not (tmp_path / "second/samples").exists()
    assert outcome(tmp_path / "first", STEPS)["weights"] == outcome(tmp_path / "second", STEPS)["weights"]


def test_samples_that_are_not_there_or_not_used_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file of samples"):
        train(RUN | {"samples": str(tmp_path / "none.parquet")}, tmp_path / "run")
    with pytest.raises(RunFileError, match="has no effect on grpo"):
        train(RUN | {"algorithm": "grpo", "samples": "x.parquet"}, tmp_path / "run")


def test_samples_that_are_gone_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(4, monkeypatch, RUN, tmp_path / "run")
    (tmp_path / "run/samples/stage-0.parquet").unlink()
    with pytest.raises(TrainingError, match="the samples that this stage drew once are gone"):
        resume(tmp_path / "run")


def test_a_stage_draws_from_the_policy_of_the_stage_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    plain = Update.step

    def step(self: Update, algorithm: Any, batch: Any, index: int) -> Any:
        steps.append(algorithm.name)
        return plain(self, algorithm, batch, index)

    monkeypatch.setattr(Update, "step", step)
    shared = {key: value for key, value in RUN.items() if key not in ("steps", "algorithm")}
    stages = [{"algorithm": "online_rft", "steps": 2}, {"algorithm": RUN["algorithm"], "steps": 2}]
    stages[0]["algorithm"] = {"name": "online_rft", "accept_truncated": True}
    folder = train(shared | {"stages": stages}, tmp_path / "run").folder
    assert steps == ["online_rft"] * 2 + ["rft"] * 2
    drawn = parquet.read_table(folder / "samples/stage-1.parquet").to_pylist()
    assert {row["policy_version"] for row in drawn} == {2}
    assert not (folder / "samples/stage-0.parquet").exists()
