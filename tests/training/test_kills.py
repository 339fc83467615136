"""Processes killed with SIGKILL, anywhere, and asked to stop with SIGTERM and SIGINT: nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from killing import PLACES
from tiny_runs import Lines, metric_rows, outcome, same

import groupwise
from groupwise.errors import RunFolderError

RUN = """
model = { name = "builtin:tiny-char", dtype = "float32" }
task = "sums"
prompts = { per_step = 4 }
sampling = { group_size = 4, max_tokens = 6 }
evaluation = { prompts = 3, every = 5 }
checkpoint = { every = 1, keep = 2 }
rewards = [{ name = "function", file = "reward.py", workers = 1 }]

[[stages]]
algorithm = "sft"
steps = 3
optimizer = { learning_rate = 1e-3 }

[[stages]]
algorithm = { name = "grpo", beta = 0.04 }
steps = 9
optimizer = { learning_rate = 5e-4, warmup_steps = 2, schedule = "cosine" }
"""
REWARD = """
def reward(record):
    return sum(character.isdigit() for character in record.text) / 6
"""
STEPS = 12
CLI = "from groupwise.cli import app; app()"


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kills")
    (folder / "reward.py").write_text(REWARD)
    path = folder / "twelve.toml"
    path.write_text(RUN)
    return path


@pytest.fixture(scope="module")
def unbroken(run_file: Path) -> dict[str, Any]:
    """The outcome of the run that nobody disturbs, computed with one thread as the others are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = groupwise.train(run_file, out=run_file.parent / "unbroken", display=Lines()).folder
    torch.set_num_threads(before)
    assert len({row["grad_norm"] for row in metric_rows(folder)}) == STEPS, "some step learnt nothing"
    return outcome(folder, STEPS)


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """A Python process of its own, with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parent
    )


def recorded_steps(out: Path) -> int:
    path = out / "metrics.jsonl"
    return sum('"status"' in line for line in path.read_text().splitlines()) if path.exists() else 0


def wait_until(process: subprocess.Popen[str], out: Path, steps: int) -> None:
    """Until so many steps are recorded."""
    while recorded_steps(out) < steps:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def kill_at_random(run_file: Path, out: Path, seed: int) -> None:
    """SIGKILL after a random step of the first eleven, and a random part of a second."""
    draw = random.Random(seed)
    process = start("-c", CLI, "train", run_file, "--out", out)
    wait_until(process, out, draw.randrange(1, 10))
    time.sleep(draw.uniform(0, 0.1))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert recorded_steps(out) < STEPS


def kill_at(place: str, step: int, run_file: Path, out: Path) -> None:
    process = start("killing.py", place, str(step), run_file, out)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors


def resumed(out: Path) -> Lines:
    """Resume, and be sure that at most one checkpoint interval is done again."""
    done, lines = recorded_steps(out), Lines()
    result = groupwise.resume(out, display=lines)
    assert result.finished and result.steps == STEPS
    step = next(int(line.rpartition(" ")[2]) for line in lines.lines if line.startswith("resumed from step"))
    assert done - 1 <= step <= done
    return lines


def test_a_run_killed_at_a_random_moment_ends_as_the_unbroken_one(
    run_file: Path, unbroken: dict[str, Any], tmp_path: Path
) -> None:
    kill_at_random(run_file, tmp_path / "run", seed=0)
    resumed(tmp_path / "run")
    same(unbroken, outcome(tmp_path / "run", STEPS))


def test_R082_a_run_killed_while_saving_ends_as_the_unbroken_one(
    run_file: Path, unbroken: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    kill_at("while files are flushed", 7, run_file, out)
    assert (out / "checkpoints/.step-7.new/model.safetensors").is_file()
    assert not (out / "checkpoints/step-7").exists()
    assert "resumed from step 6" in resumed(out).lines
    same(unbroken, outcome(out, STEPS))
    assert not (out / "checkpoints/.step-7.new").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("place", "step"), list(zip(PLACES, [5, 2, 9, 4, 8, 7, 3, 11, 1, 6, 10], strict=True)))
def test_R082_a_run_killed_anywhere_ends_as_the_unbroken_one(
    run_file: Path, unbroken: dict[str, Any], tmp_path: Path, place: str, step: int
) -> None:
    kill_at(place, step, run_file, tmp_path / "run")
    resumed(tmp_path / "run")
    same(unbroken, outcome(tmp_path / "run", STEPS))
    assert not list(tmp_path.glob("run/rollouts/.*"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_run_killed_at_other_random_moments_ends_as_the_unbroken_one(
    run_file: Path, unbroken: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    kill_at_random(run_file, tmp_path / "run", seed)
    resumed(tmp_path / "run")
    same(unbroken, outcome(tmp_path / "run", STEPS))


@pytest.mark.slow
def test_a_run_killed_twice_ends_as_the_unbroken_one(run_file: Path, unbroken: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill_at("before the folder is renamed", 4, run_file, out)
    process = start("-c", CLI, "train", "--resume", out)
    wait_until(process, out, 7)
    process.kill()
    process.communicate()
    resumed(out)
    same(unbroken, outcome(out, STEPS))


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["SIGTERM", "SIGINT"]
)
def test_a_run_that_is_asked_to_stop_saves_and_says_how_to_go_on(
    run_file: Path, unbroken: dict[str, Any], tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    process = start("-c", CLI, "train", run_file, "--out", out, "--set", "checkpoint.every=0")
    wait_until(process, out, 5)
    process.send_signal(number)
    said, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    done = recorded_steps(out)
    assert 5 <= done < STEPS
    assert f"{number.name}: finishing this step, then saving" in said
    assert f"stopped after step {done}; go on with: groupwise train --resume {out}" in " ".join(said.split())
    assert (out / f"checkpoints/step-{done}/complete.json").is_file()
    lines = resumed(out)
    assert f"resumed from step {done}" in lines.lines
    same(unbroken, outcome(out, STEPS))


def test_a_run_killed_before_it_had_a_folder_has_none(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds no run"):
        groupwise.resume(tmp_path / "run", display=Lines())
