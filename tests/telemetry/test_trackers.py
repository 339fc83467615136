"""Trackers get a copy of the metrics, and can neither stop, change nor slow a run."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.errors import RunFileError
from groupwise.telemetry.trackers import TRACKERS, contract
from groupwise.telemetry.trackers.contract import Start
from groupwise.telemetry.trackers.guarded import Guarded, Trackers, scalars
from groupwise.telemetry.trackers.tensorboard import TensorBoardSettings

ROWS = [{"id": f"row-{n}", "prompt": f"{n}+{n}=", "answer": str(2 * n)} for n in range(4)]
RUN: dict[str, Any] = {
    "steps": 3,
    "model": {"name": "builtin:tiny-char", "dtype": "float32"},
    "algorithm": "grpo",
    "prompts": {"per_step": 2},
    "sampling": {"group_size": 2, "max_tokens": 3},
    "evaluation": {"prompts": 2},
}
ROW = {
    "step": 7, "stage": "0-grpo", "status": "updated", "reward_mean": 0.5, "kl_k1": None, "loss": float("nan"),
    "seconds": {"rollout": 1.5}, "eval": {"reward_interval": [0.1, 0.2], "held_out": {"loss": 2}},
}  # fmt: skip


class Fake:
    """A tracker that does what it is told to with each call, and remembers the calls."""

    def __init__(self, act: Any = lambda: None) -> None:
        self.act = act
        self.calls: list[Any] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.calls.append((step, dict(values)))
        self.act()

    def close(self) -> None:
        self.calls.append("close")
        self.act()


def said(tracker: Guarded) -> list[str]:
    return [tracker.notes.get_nowait() for _ in range(tracker.notes.qsize())]


def test_a_row_is_logged_as_its_finite_numbers() -> None:
    assert scalars(ROW) == {"reward_mean": 0.5, "seconds/rollout": 1.5, "eval/held_out/loss": 2.0}


def test_rows_come_in_order_and_the_tracker_is_closed() -> None:
    fake = Fake()
    tracker = Guarded("fake", lambda: fake)
    for step in range(5):
        tracker.log(step, {"x": 1.0})
    tracker.close(10)
    assert fake.calls == [*((step, {"x": 1.0}) for step in range(5)), "close"]
    assert said(tracker) == [] and tracker.dropped == 0


@pytest.mark.parametrize("error", [ConnectionError("no route\nto host"), SystemExit(1), KeyboardInterrupt()])
def test_R050_the_first_error_gives_one_warning_and_ends_the_use_of_the_tracker(error: BaseException) -> None:
    def fail() -> None:
        raise error

    fake = Fake(fail)
    tracker = Guarded("fake", lambda: fake)
    for step in range(5):
        tracker.log(step, {})
        time.sleep(0.02)
    tracker.close(10)
    assert fake.calls == [(0, {})]
    (line,) = said(tracker)
    assert "the tracker fake failed" in line and type(error).__name__ in line and "\n" not in line


def test_R050_a_tracker_that_cannot_be_opened_is_no_more() -> None:
    def refuse() -> Fake:
        raise PermissionError("no key")

    tracker = Guarded("fake", refuse)
    tracker.log(0, {})
    tracker.close(10)
    assert ["no key" in line for line in said(tracker)] == [True]


def test_a_tracker_that_is_too_slow_loses_rows_which_are_counted_and_never_makes_one_wait() -> None:
    gate = threading.Event()
    fake = Fake(gate.wait)
    tracker = Guarded("fake", lambda: fake, waiting=2)
    for step in range(10):
        tracker.log(step, {})
    gate.set()
    tracker.close(10)
    logged = [call[0] for call in fake.calls[:-1]]
    assert logged == sorted(logged) and len(logged) + tracker.dropped == 10
    assert tracker.dropped >= 7, "one is being logged at most, and two wait"
    assert said(tracker) == [f"the tracker fake was too slow: it lacks {tracker.dropped} rows of metrics"]


def test_a_tracker_that_hangs_is_left_behind() -> None:
    gate = threading.Event()
    tracker = Guarded("fake", lambda: Fake(gate.wait), waiting=1)
    for step in range(3):
        tracker.log(step, {})
    tracker.close(0.2)
    gate.set()
    assert any("left behind" in line for line in said(tracker))


def test_notes_are_said_by_the_one_who_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("broken")

    monkeypatch.setattr(TensorBoardSettings, "open", fail)
    by: list[str] = []
    trackers = Trackers(
        [TensorBoardSettings()], Start(tmp_path, {}, 0), lambda line: by.append(threading.current_thread().name)
    )
    trackers.log(ROW)
    trackers.close()
    assert by == [threading.current_thread().name]


class Lines:
    """A display that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, row: Mapping[str, Any], total: int) -> None: ...

    def evaluation(self, row: Mapping[str, Any]) -> None: ...


def ran(out: Path, **changes: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """What a run said, and its rows of metrics without times."""
    display = Lines()
    groupwise.train(RUN | changes, prompts=ROWS, test_prompts=ROWS[:2], rewards=[length], out=out, display=display)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        for name in ("seconds", "cpu_seconds", "ledger_seconds", "peak_rss_mb"):
            row.pop(name, None)
        row.get("eval", {}).pop("seconds", None)
    return display.lines, rows


def length(record: Any) -> float:
    return sum(map(ord, record.text)) % 2


@pytest.mark.filterwarnings("ignore:reward .* runs in this process:UserWarning")
def test_R050_a_tracker_that_raises_on_every_call_changes_nothing_but_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ConnectionError("no route to host")

    fake = Fake(fail)
    monkeypatch.setattr(TensorBoardSettings, "open", lambda *_: fake)
    monkeypatch.setattr(TensorBoardSettings, "check", lambda _: None)
    plain, rows = ran(tmp_path / "plain")
    told, same_rows = ran(tmp_path / "tracked", trackers=[{"name": "tensorboard"}])
    assert same_rows == rows and len(rows) == 5
    assert [line for line in told if "the tracker" in line] == [
        "the tracker tensorboard failed and is not used any more (ConnectionError: no route to host); the run goes on"
    ]
    measured = ("free", "report: ", "memory: ", "time: ", "the tracker")
    same, as_before = (
        [line for line in lines if not any(word in line for word in measured)] for lines in (told, plain)
    )
    assert same == as_before
    assert len(fake.calls) == 1


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_that_is_missing_is_said_before_a_model_loads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "find_spec", lambda _: None)
    display = Lines()
    with pytest.raises(RunFileError, match=f"the tracker {name} needs the package {name}; pip install {name}") as error:
        groupwise.train(
            RUN | {"trackers": [{"name": name}]}, prompts=ROWS, rewards=[length], out=tmp_path / "run", display=display
        )
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()
    assert not any("computing in" in line for line in display.lines)


def test_tensorboard_holds_every_row_under_its_step_and_hides_what_is_done_again(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for begun, steps in ((0, range(1, 6)), (3, range(4, 7))):
        trackers = Trackers([TensorBoardSettings()], Start(tmp_path, {}, begun), pytest.fail)
        for step in steps:
            trackers.log({"step": step, "reward_mean": step / 10 + begun, "seconds": {"update": 2.0}})
        trackers.close()
        time.sleep(1.1)  # event files are named by the second
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"reward_mean", "seconds/update"}
    found = [(event.step, round(event.value, 4)) for event in events.Scalars("reward_mean")]
    assert found == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 3.4), (5, 3.5), (6, 3.6)]


PROGRAM = """
import sys
from pathlib import Path
from groupwise.telemetry.trackers import TRACKERS
from groupwise.telemetry.trackers.contract import Start
from groupwise.telemetry.trackers.guarded import Trackers

name, folder, settings = sys.argv[1], Path(sys.argv[2]), eval(sys.argv[3])
said = []
trackers = Trackers([TRACKERS[name](**settings)], Start(folder, {"steps": 3}, 0), said.append)
for step in range(3):
    trackers.log({"step": step, "reward_mean": step / 4, "eval": {"reward": 0.5}})
trackers.close(60)
assert said == [], said
"""


def tracked(name: str, folder: Path, settings: Mapping[str, Any]) -> str:
    """Three rows, logged by a process of its own, which these libraries leave threads and hooks in; what it printed."""
    environment = os.environ | {"HOME": str(folder.parent), "TRACKIO_DIR": str(folder.parent / "trackio")}
    command = [sys.executable, "-c", PROGRAM, name, str(folder), repr(dict(settings))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(find_spec("wandb") is None, reason="the package wandb is not installed")
def test_wandb_offline_writes_to_the_run_folder_alone_and_prints_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert tracked("wandb", folder, {"mode": "offline"}) == ""
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    assert file.stem == f"run-{(folder / 'wandb/groupwise-run-id').read_text()}"
    content = file.read_bytes()
    assert b"reward_mean" in content and b"eval/reward" in content and b"0.25" in content


@pytest.mark.slow
@pytest.mark.skipif(find_spec("trackio") is None, reason="the package trackio is not installed")
def test_trackio_holds_every_row_under_its_step_and_prints_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert tracked("trackio", folder, {"project": "sums"}) == ""
    with sqlite3.connect(tmp_path / "trackio/sums.db") as base:
        rows = base.execute("select step, metrics from metrics where run_name = 'run' order by step").fetchall()
    assert [(step, json.loads(metrics)["reward_mean"]) for step, metrics in rows] == [(0, 0.0), (1, 0.25), (2, 0.5)]
