"""`groupwise eval` at the command line: tables within 80 columns, JSON, comparison, seeds, errors in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import groupwise.cli.evaluation  # noqa: F401 (registers the command)
from groupwise.cli import app
from groupwise.models.builtin import builtin_folder

RUN = """
steps = 1
model = { name = "builtin:tiny-char", dtype = "float32" }
algorithm = "grpo"
task = "sums"
sampling = { group_size = 2, max_tokens = 3 }
evaluation = { prompts = 12 }
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("mine.toml").write_text(RUN)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", *arguments])


def fails(*arguments: str) -> str:
    """The one line that a command which can't be done prints."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    lines = result.output.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), result.output
    return lines[0]


def test_table_json_and_a_second_call() -> None:
    first = invoke("mine.toml", "--samples", "3", "--pass-at", "1,3")
    assert first.exit_code == 0, first.output
    lines = first.output.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert "mine.toml: 12 test prompts of sums" in first.output
    for name in ("greedy", "avg@3", "pass@1", "pass@3", "maj@3"):
        assert any(f" {name} " in line for line in lines)
    folder = next(Path("evals").iterdir())
    assert folder.name.startswith("mine.toml-")
    again = invoke("mine.toml", "--samples", "3", "--pass-at", "1,3", "--json")
    found = json.loads(again.stdout)
    assert found["folder"] == f"evals/{folder.name}"
    assert found["measures"]["avg@3"]["prompts"] == 12
    assert {key: value for key, value in found.items() if key != "folder"} == json.loads(
        (folder / "results.json").read_text()
    )


def test_against_a_model_and_against_earlier_results() -> None:
    shutil.copytree(builtin_folder("tiny-char"), "twin")
    result = invoke("mine.toml", "--samples", "2", "--against", "twin", "--out", "here")
    assert result.exit_code == 0, result.output
    assert "mine.toml against twin, paired by prompt" in result.output
    assert max(len(line) for line in result.output.splitlines() if line.startswith(("│", "┃"))) <= 80
    kept = json.loads(Path("here/results.json").read_text())
    assert kept["against"]["label"] == "twin"
    assert kept["against"]["measures"]["avg@2"]["p"] == 1.0
    assert json.loads(Path("here/against/results.json").read_text())["by_prompt"] == kept["by_prompt"]
    earlier = invoke("mine.toml", "--samples", "2", "--against", "here/against/results.json", "--out", "here")
    assert earlier.exit_code == 0 and "paired by prompt" in earlier.output


def test_several_models_give_a_table_of_seeds() -> None:
    shutil.copytree(builtin_folder("tiny-char"), "twin")
    result = invoke("mine.toml", "twin", "--task", "mine.toml", "--samples", "0", "--out", "both")
    assert result.exit_code == 0, result.output
    assert "2 models: mean and spread" in result.output
    again = invoke("mine.toml", "twin", "--task", "mine.toml", "--samples", "0", "--out", "both", "--json")
    found = json.loads(again.stdout)
    assert [one["label"] for one in found["models"]] == ["mine.toml", "twin"]
    assert found["over_seeds"]["greedy"]["seeds"] == 2 and found["over_seeds"]["greedy"]["deviation"] == 0
    assert {path.name for path in Path("both").iterdir()} == {"1-mine.toml", "2-twin"}
    assert max(len(line) for line in result.output.splitlines() if line.startswith(("│", "┃"))) <= 80


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["builtin:tiny-char"], "'builtin:tiny-char' is no run, so nothing says what to ask the model; add --task"),
        (["builtin:tiny-char", "--task", "summs"], "there is no task 'summs'; did you mean sums?"),
        (["builtin:tiny-chr", "--task", "sums"], "no built-in model is called builtin:tiny-chr; did you mean"),
        (["nowhere.toml"], "there is no run file or packaged run 'nowhere.toml'; did you mean mine.toml?"),
        (["mine.toml", "--samples", "2", "--pass-at", "4"], "--pass-at 4 can't be had from 2 samples per prompt"),
        (["mine.toml", "--pass-at", "one"], "--pass-at 'one' is not a list of numbers; write for instance"),
        (["mine.toml", "--against", "nowhere.json"], "nowhere.json holds no results of an evaluation"),
        (["mine.toml", "mine.toml", "--against", "mine.toml"], "--against compares two models, and 2 are given"),
        (["mine.toml", "--set", "task.digit=1"], "task.digit is not a setting; did you mean digits?"),
    ],
)
def test_bad_input_is_one_line_before_a_model_is_loaded(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from groupwise.evaluating import running

    def load_model(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(running, "load_model", load_model)
    assert told in fails(*arguments)


def test_other_prompts_are_told() -> None:
    assert invoke("mine.toml", "--samples", "0", "--prompts", "5", "--out", "five").exit_code == 0
    told = fails("mine.toml", "--samples", "0", "--against", "five", "--out", "twelve")
    assert "were not asked the same: 7 of 12 prompts differ" in told


def test_a_stop_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from groupwise.sources.live import Sampler

    def stopped(self: Sampler, prompts: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sampler, "gather", stopped)
    result = invoke("mine.toml")
    assert result.exit_code == 130 and "the same command goes on from here" in result.output
