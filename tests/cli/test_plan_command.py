"""`groupwise plan`, and what a run says of its plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from groupwise.cli import app
from groupwise.training import planned as planned_module
from groupwise.training.wishes import pass_rates

SEED = ("--model", "llama-70b", "--accounting", "seed")
TINY = ("--set", "stages.0.steps=1", "--set", "stages.1.steps=2", "--set", "evaluation.prompts=4")


@pytest.fixture(autouse=True)
def no_calibration_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_module, "CACHE", tmp_path / "calibrations")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == 2, (result.output, result.exception)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "; " in line and "Traceback" not in result.output
    return line


@pytest.mark.parametrize(("algorithm", "total"), [("ppo", 1680.0), ("grpo", 840.0)])
def test_the_seed_s_table(algorithm, total):
    found = json.loads(run(*SEED, "--algorithm", algorithm, "--json"))
    assert found["total_gb"] == total and found["phases"] == {}
    assert sum(found["components"].values()) == pytest.approx(total)
    assert "reward model" in found["components"] or algorithm == "grpo"


def test_parameters_can_be_given():
    assert json.loads(run(*SEED, "--parameters", "7e9", "--json"))["total_gb"] == 84.0
    assert json.loads(run(*SEED, "--algorithm", "ppo", "--reward-models", "0", "--json"))["total_gb"] == 1540.0
    assert json.loads(run(*SEED, "--reward-models", "1", "--json"))["total_gb"] == 980.0


def test_a_model_on_a_cluster_in_words():
    told = run("--model", "qwen2.5-7b", "--gpu", "h100", "--gpus", "8", "--pass-rate", "0.3")
    assert "assumed, since it wasn't given: --prompts" in told
    for words in ("update  <- the most", "it fits into 80", "Seconds of a step", "device-hours", "8  <- this run"):
        assert words in told
    assert max(map(len, told.splitlines())) <= 120


def test_a_run_file_is_planned_without_its_weights(monkeypatch):
    def load_model(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("groupwise.models.loading.load_model", load_model)
    stages = json.loads(run("sums_from_scratch", "--json", "--gpu", "h100"))
    assert [stage["algorithm"] for stage in stages] == ["sft", "grpo"]
    assert stages[1]["fits"] and stages[1]["parameters"] == 795_136
    assert "rollout" in stages[1]["phases"] and "rollout" not in stages[0]["phases"]


def test_this_machine_is_measured_once(monkeypatch):
    stages = json.loads(run("sums_from_scratch", "--json"))
    assert stages[1]["time"]["step_seconds"] > 0 and "time" not in stages[0]

    def calibrate(*_: Any, **__: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("groupwise.training.calibration.calibrate", calibrate)
    assert json.loads(run("sums_from_scratch", "--json"))[1]["time"] == stages[1]["time"]


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_what_is_printed_can_be_kept_as_a_picture(tmp_path, how):
    run(*SEED, *how, "--plot", str(tmp_path / "plan.svg"))
    picture = (tmp_path / "plan.svg").read_text("utf-8")
    assert picture.startswith("<svg") and "optimiser" in picture


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a run file, or a model with --model"),
        (("sums_from_scratch", "--model", "gpt2"), "give a run file, or a model with --model"),
        (("--model", "lama-70b"), "did you mean llama-70b"),
        (("--model", "llama-70b", "--gpu", "h10"), "did you mean h100"),
        (("--model", "llama-70b", "--algorithm", "gppo"), "did you mean g?r?ppo|did you mean"),
        (("--model", "llama-70b", "--accounting", "sed"), "accounting 'sed' is unknown; use one of seed"),
        (("--model", "llama-70b", "--group-size", "1"), "a group size of 1 gives grpo nothing to compare"),
        (("--model", "llama-70b", "--gpus", "8"), "--gpus 8 of no kind; name the kind"),
        (("--model", "llama-70b", "--gpu", "h100", "--gpus", "8", "--tensor-parallel", "3"), "divide"),
        (("--model", "qwen2.5-7b", "--gpu", "h100", "--gpus", "6", "--tensor-parallel", "3"), "28 heads"),
        (("--model", "llama-70b", "--max-tokens", "-5"), "at most -5 tokens are none"),
        (("--model", "llama-70b", "--tokens", "2000"), "can't have a mean of 2000"),
        (("--model", "llama-70b", "--prompt-tokens", "0"), "--prompt-tokens 0 is impossible"),
        (("--model", "llama-70b", "--pass-rate", "1.5"), "pass rate 1 is 1.5"),
        (("--model", "llama-70b", "--pass-rate", "much"), "neither a number nor a file"),
        (("--model", "llama-70b", "--parameters", "inf"), "--parameters inf is no size"),
        (("--model", "llama-70b", "--parameters", "5"), "5 parameters are impossible"),
        (("--model", "llama-70b", "--prompts", "1000000"), "1000000 prompts of 8 completions are no step"),
        (("--model", "llama-70b", "--base", "nf4"), "give --lora RANK, too"),
        (("--model", "llama-70b", "--accounting", "seed", "--lora", "8"), "the accounting seed knows no adapters"),
        (("--model", "llama-70b", "--plot", "/nowhere/at/all.svg"), "can't be written"),
        (("--model", "llama-70b", "--set", "steps=3"), "--set without a run file"),
        (("sums_from_scratch", "--algorithm", "ppo"), "--algorithm beside a run file"),
    ],
)
def test_bad_input_is_one_line(arguments, said):

    assert re.search(said, refused(*arguments))


def test_counts_are_read_from_a_file(tmp_path):
    path = tmp_path / "counts.jsonl"
    path.write_text("".join(json.dumps({"right": right, "sampled": 8}) + "\n" for right in (0, 1, 3, 5, 8, 2)))
    rates = pass_rates(str(path))
    assert rates is not None and 0.2 < rates.expected(1, 0) < 0.6
    for line, said in (
        ('{"right": 0.9, "sampled": 8}', "right = 0.9"),
        ('{"right": true, "sampled": 8}', "right = True"),
    ):
        path.write_text(line + "\n")
        assert said in refused("--model", "gpt2", "--pass-rate", str(path))
    path.write_bytes(b"\xff\xfe")
    assert "isn't text in UTF-8" in refused("--model", "gpt2", "--pass-rate", str(path))
    path.write_text('{"right": 1}\n')
    assert f"{path}, line 1 is no pair of counts" in refused("--model", "gpt2", "--pass-rate", str(path))


def test_a_run_says_what_was_predicted_and_what_it_took(tmp_path):
    result = CliRunner().invoke(app, ["train", "sums_from_scratch", *TINY, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, (result.output, result.exception)
    told = " ".join(result.stdout.split())
    assert "the update needs the most" in told and "are free" in told
    assert "were predicted" in told and "taken at the peak" in told
