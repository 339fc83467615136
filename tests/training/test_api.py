"""Training from Python: rows, rewards, and what a run leaves behind."""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import ROWS, Lines, coin, metric_rows, rollouts, tiny

import groupwise
from groupwise.errors import DataError, RunFileError, RunFolderError
from groupwise.run import Run
from groupwise.training import api


def test_a_run_from_python_with_a_closure_says_that_nothing_guards_it(tmp_path: Path) -> None:
    wanted = "1"

    def starts_with(record: Any) -> bool:
        return record.text.startswith(wanted)

    lines = Lines()
    with pytest.warns(UserWarning, match="reward 'starts_with' .* WITHOUT a time limit"):
        result = groupwise.train(tiny(), prompts=ROWS, rewards=[starts_with], out=tmp_path / "run", display=lines)
    assert "reward 'starts_with' can't be loaded by a worker process" in lines.text
    assert result.finished and result.steps == 2 and result.interrupted_by is None
    assert result.folder == tmp_path / "run"
    assert result.summary is not None and result.summary.steps == 2
    assert metric_rows(result.folder)[0]["reward_parts"].keys() == {"starts_with"}


def test_a_run_object_a_mapping_and_a_file_give_the_same_run(tmp_path: Path) -> None:
    mapping = tiny(task="rows")
    run = groupwise.load_run(mapping).run
    assert isinstance(run, Run)
    texts = []
    for number, source in enumerate([mapping, run]):
        folder = groupwise.train(
            source, prompts=ROWS, rewards=[coin()], out=tmp_path / f"run-{number}", display=Lines()
        ).folder
        texts.append([row["completion"] for row in rollouts(folder)])
        if number == 0:
            path = tmp_path / "again.toml"
            path.write_text((folder / "run.toml").read_text())
    folder = groupwise.train(path, prompts=ROWS, rewards=[coin()], out=tmp_path / "run-2", display=Lines()).folder
    texts.append([row["completion"] for row in rollouts(folder)])
    assert texts[0] == texts[1] == texts[2]


def test_a_run_may_train_in_another_thread(tmp_path: Path) -> None:
    """As notebooks and servers do: no signal is listened for there."""
    results: list[Any] = []

    def work() -> None:
        results.append(
            groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).finished
        )

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [True]


def test_overrides_are_laid_over_the_run(tmp_path: Path) -> None:
    groupwise.train(
        tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", overrides=["steps=1"], display=Lines()
    )
    assert len(metric_rows(tmp_path / "run")) == 1


def test_a_folder_that_holds_a_run_or_something_else_is_left_alone(tmp_path: Path) -> None:
    groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines())
    with pytest.raises(RunFolderError, match="already holds a run; resume it with --resume"):
        groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(RunFolderError, match="is not empty; give an empty or new folder as --out"):
        groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "other", display=Lines())


def test_R050_completions_are_recorded_without_any_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tracker in ("wandb", "tensorboard", "mlflow", "trackio"):
        monkeypatch.setitem(sys.modules, tracker, None)  # importing it fails
    folder = groupwise.train(tiny(), prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    assert [path.name for path in sorted((folder / "rollouts").iterdir())] == [
        "step-000001.parquet", "step-000002.parquet",
    ]  # fmt: skip
    recorded = rollouts(folder)
    assert len(recorded) == 2 * 2 * 4
    for number, row in enumerate(recorded):
        assert row["prompt"] == next(entry["prompt"] for entry in ROWS if entry["id"] == row["prompt_id"])
        assert len(row["completion"]) >= 1
        assert row["reward"] in (0.0, 1.0) and row["correct"] == bool(row["reward"])
        assert json.loads(row["parts"]).keys() == {"<lambda>"}
        assert len(row["advantages"]) == len(row["token_ids"]) == len(row["sampler_log_probs"])
        assert len(set(row["advantages"])) == 1
        assert row["finish_reason"] in ("stop", "length")
        assert (row["finish_reason"] == "stop") == row["completion"].endswith("<eos>")
        assert row["sample"] == number % 4 and row["step"] == 1 + number // 8
        assert row["kept"] and row["dropped_because"] is None
        assert json.loads(row["columns"]) == {"answer": next(e["answer"] for e in ROWS if e["id"] == row["prompt_id"])}
    for start in range(0, len(recorded), 4):
        group = recorded[start : start + 4]
        assert len({row["group_id"] for row in group}) == 1
        assert abs(sum(row["advantages"][0] for row in group)) < 1e-5
        better = [row["advantages"][0] for row in group if row["reward"] == 1]
        worse = [row["advantages"][0] for row in group if row["reward"] == 0]
        assert not better or not worse or min(better) > 0 > max(worse)


def test_R078_all_columns_of_a_row_reach_the_reward(tmp_path: Path) -> None:
    rows = [
        {"id": f"row-{n}", "prompt": f"{n}+1=", "key": f"key-{n}", "meta": {"depth": n, "tags": ["a", n]}}
        for n in range(2)
    ]
    seen: list[tuple[Any, ...]] = []

    @groupwise.group_reward
    def look(records: list[Any]) -> list[float]:
        seen.append(tuple((record.prompt_id, record.columns["key"], record.columns["meta"]) for record in records))
        return [float(number) for number, _ in enumerate(records)]

    run = tiny(steps=1, sampling={"group_size": 3})
    groupwise.train(run, prompts=rows, rewards=[look], out=tmp_path / "run", display=Lines())
    expected = [[(row["id"], row["key"], row["meta"])] * 3 for row in rows]
    assert sorted(seen) == sorted(tuple(group) for group in expected)


def test_R078_a_column_that_the_reward_declares_is_asked_for_before_a_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupwise.training.api.load_model", None)
    reward = coin()
    reward.columns = ["gold"]  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="needs the column 'gold'; 10 of 10 rows lack it"):
        groupwise.train(tiny(), prompts=ROWS, rewards=[reward], out=tmp_path / "run", display=Lines())
    assert not (tmp_path / "run").exists()


def test_R078_columns_reach_a_reward_in_a_file_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def reward(record):\n    return record.columns['meta']['scale'] * len(record.token_ids)\n"
    )
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{n}=", "meta": {"scale": n}}) + "\n" for n in range(4))
    )
    file = tmp_path / "mine.toml"
    file.write_text(
        'steps = 1\nalgorithm = "grpo"\ntask = { name = "data", path = "rows.jsonl" }\n'
        'model = { name = "builtin:tiny-char", dtype = "float32" }\n'
        "prompts = { per_step = 4 }\nsampling = { group_size = 2, max_tokens = 3 }\n"
        '[[rewards]]\nname = "function"\nfile = "mine.py"\nworkers = 1\n'
    )
    folder = groupwise.train(file, out=tmp_path / "run", display=Lines()).folder
    recorded = rollouts(folder)
    assert len(recorded) == 8
    for row in recorded:
        assert row["reward"] == json.loads(row["columns"])["meta"]["scale"] * len(row["token_ids"])


def test_R093_prompts_from_a_generator_make_whole_groups(tmp_path: Path) -> None:
    run = tiny(steps=5, sampling={"group_size": 2})
    rows = (row for row in ROWS[:5])
    folder = groupwise.train(run, prompts=rows, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    recorded = rollouts(folder)
    for step in range(1, 6):
        mine = [row for row in recorded if row["step"] == step]
        assert [row["sample"] for row in mine] == [0, 1, 0, 1]
        assert len({row["group_id"] for row in mine}) == 2
    visits = [(row["prompt_id"], row["visit"]) for row in recorded if row["sample"] == 0]
    assert sorted(visits) == sorted((f"row-{n}", visit) for n in range(5) for visit in range(2))


def test_R093_fewer_prompts_than_a_step_takes_are_repeated_with_new_draws(tmp_path: Path) -> None:
    run = tiny(steps=1, prompts={"per_step": 4}, sampling={"max_tokens": 8})
    folder = groupwise.train(run, prompts=ROWS[:1], rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    recorded = rollouts(folder)
    assert [row["group_id"] for row in recorded] == [f"row-0#{visit}" for visit in range(4) for _ in range(4)]
    assert len({tuple(row["token_ids"]) for row in recorded}) == 16


def test_R093_no_rows_at_all_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.training.api.load_model", None)
    with pytest.raises(DataError, match="there are no rows in the rows given; give at least one row"):
        groupwise.train(tiny(), prompts=iter(()), rewards=[coin()], out=tmp_path / "run", display=Lines())


def test_R093_no_steps_are_an_error() -> None:
    with pytest.raises(RunFileError, match="steps = 0"):
        groupwise.load_run(tiny(steps=0, task="rows"))


def test_what_is_trained_is_said_first(tmp_path: Path) -> None:
    lines = Lines()
    groupwise.train(
        tiny(algorithm={"name": "grpo", "beta": 0.125, "clip_high": 0.3}), prompts=ROWS, rewards=[coin()],
        out=tmp_path / "run", display=lines,
    )  # fmt: skip
    for expected in ("stage 0-grpo: 2 steps of 2 prompts", "0.125 k3", "clip(ρ, 0.8, 1.3)", "lr 0.001", "0+0="):
        assert expected in lines.text, expected


def test_runs_that_start_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Frozen:
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(api, "datetime", Frozen)
    monkeypatch.chdir(tmp_path)
    for name in ("a-20260102-030405", "a-20260102-030405-2", "a-20260102-030405-3"):
        folder = api.default_folder("a")
        assert folder == Path("runs") / name
        folder.mkdir(parents=True)
