"""The ledger: one complete Parquet file per step."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from groupwise.telemetry import ledger
from groupwise.types import Completion, DrawKey, Group, Prompt, Score, Segment


def sampled(sample: int, ids: tuple[int, ...], version: int = 3) -> Completion:
    key = DrawKey(0, "train", 0, "p", 5, sample)
    segment = Segment(ids, tuple(-float(value) for value in ids), version=version)
    return Completion((segment,), "stop" if sample else "length", key)


PROMPT = Prompt("p", (7, 8), "two", columns={"answer": 4, "when": Path("x")})
KEPT = Group("p#5", PROMPT, (sampled(0, (1, 2)), sampled(1, (3,))), (Score(0.5, True, "why", {"a": 0.5}), Score(None)))
DROPPED = Group("q#0", PROMPT, (sampled(0, (4,)),), (Score(1.0),))


def write(folder: Path, step: int = 2) -> list[dict]:
    file = ledger.file_of(folder, step)
    advantages = {"p#5": [[0.5, 0.5], [-0.5]]}
    ledger.write(file, step, "0-grpo", [KEPT, DROPPED], [["ab", "c"], ["d"]], advantages, {"q#0": "tied"})
    return parquet.read_table(file).to_pylist()


def test_R050_every_completion_is_a_row_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    first, second, third = write(tmp_path)
    assert first == {
        "step": 2, "stage": "0-grpo", "group_id": "p#5", "prompt_id": "p", "visit": 5, "sample": 0, "prompt": "two",
        "prompt_token_ids": [7, 8], "columns": json.dumps({"answer": 4, "when": "x"}), "completion": "ab",
        "token_ids": [1, 2], "token_texts": None, "sampler_log_probs": [-1.0, -2.0], "finish_reason": "length",
        "policy_version": 3,
        "reward": 0.5, "correct": True, "reason": "why", "parts": '{"a": 0.5}', "step_rewards": None,
        "step_ends": None, "advantages": [0.5, 0.5], "coefficients": None,
        "kept": True, "dropped_because": None,
    }  # fmt: skip
    assert (second["sample"], second["reward"], second["correct"], second["advantages"]) == (1, None, None, [-0.5])
    assert (third["kept"], third["dropped_because"], third["advantages"]) == (False, "tied", None)


def test_a_file_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(_, path, **__) -> None:
        Path(path).write_bytes(b"PAR1")
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger.parquet, "write_table", torn)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    assert list(tmp_path.glob("step-*.parquet")) == []
    monkeypatch.undo()
    assert len(write(tmp_path)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["step-000002.parquet"]


def test_later_files_are_forgotten_and_others_left(tmp_path: Path) -> None:
    for step in (1, 2, 10, 1_000_000):
        write(tmp_path, step)
    (tmp_path / "step-notes.parquet").touch()
    ledger.drop_after(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000001.parquet", "step-000002.parquet", "step-notes.parquet",
    ]  # fmt: skip


def test_demonstrations_have_neither_score_nor_log_probs(tmp_path: Path) -> None:
    group = Group("p#4", PROMPT, (Completion((Segment((1, 2), None),), "stop"),), (None,))
    ledger.write(ledger.file_of(tmp_path, 1), 1, "0-sft", [group], [["ab"]], {}, {})
    (row,) = parquet.read_table(ledger.file_of(tmp_path, 1)).to_pylist()
    assert row["visit"] == 4 and row["kept"]
    assert row["sampler_log_probs"] is None and row["reward"] is None and row["advantages"] is None


def test_rewards_of_steps_are_kept_and_read_back(tmp_path: Path) -> None:
    score = Score(0.5, None, "two steps", {}, step_rewards=(1.0, None), step_ends=(0, 1))
    group = Group("p#5", PROMPT, (sampled(0, (1, 2)),), (score,))
    file = ledger.file_of(tmp_path, 1)
    ledger.write(file, 1, "0-grpo", [group], [["ab"]], {}, {})
    (row,) = parquet.read_table(file).to_pylist()
    assert row["step_rewards"] == [1.0, None] and row["step_ends"] == [0, 1]
    (read,) = ledger.read_groups(file)
    assert read.scores == (score,)


def test_a_file_from_before_there_were_steps_in_it_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    file = ledger.file_of(tmp_path, 2)
    parquet.write_table(parquet.read_table(file).drop_columns(["step_rewards", "step_ends"]), file)
    kept, dropped = ledger.read_groups(file)
    assert kept.scores == KEPT.scores and dropped.scores == DROPPED.scores


def test_the_beginning_of_a_file_that_a_crash_left_is_removed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / ".step-000002.parquet.new").write_bytes(b"PAR1")
    ledger.drop_after(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001.parquet"]


def steps_in(folder: Path) -> list[int]:
    return list(ledger.files(folder))


def filled(folder: Path, cap: ledger.Cap, steps: list[int], size: int = 400_000) -> None:
    for step in steps:
        path = ledger.file_of(folder, step)
        path.write_bytes(bytes(size))
        cap.added(step, path)


def test_above_the_cap_the_oldest_files_are_dropped_and_counted(tmp_path: Path) -> None:
    cap = ledger.Cap(tmp_path, max_mb=1)
    filled(tmp_path, cap, [1, 2])
    assert steps_in(tmp_path) == [1, 2] and cap.dropped == 0
    filled(tmp_path, cap, [3, 5])
    assert steps_in(tmp_path) == [3, 5] and cap.dropped == 2
    filled(tmp_path, cap, [6], size=999_999)
    assert steps_in(tmp_path) == [6] and cap.dropped == 4


def test_the_newest_file_stays_however_large(tmp_path: Path) -> None:
    cap = ledger.Cap(tmp_path, max_mb=0)
    filled(tmp_path, cap, [1, 2])
    assert steps_in(tmp_path) == [2] and cap.dropped == 1


def test_a_run_that_goes_on_counts_the_files_that_are_there_and_goes_on_counting(tmp_path: Path) -> None:
    filled(tmp_path, ledger.Cap(tmp_path, max_mb=1), [1, 2, 3])
    (tmp_path / "step-notes.parquet").write_bytes(bytes(2_000_000))
    cap = ledger.Cap(tmp_path, max_mb=1, dropped=1)
    ledger.file_of(tmp_path, 2).unlink()  # somebody took it away: nothing to drop, and no reason to stop
    filled(tmp_path, cap, [4])
    assert steps_in(tmp_path) == [3, 4] and cap.dropped == 2
