"""The command line, in process: what it prints, and with what status it ends."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from groupwise.cli import app
from groupwise.run_file import load_run, packaged_runs
from groupwise.training.trainer import Trainer
from groupwise.training.update import Update

RUN = """
steps = 3
model = { name = "builtin:tiny-char", dtype = "float32" }
task = "sums"
prompts = { per_step = 4 }
sampling = { group_size = 4, max_tokens = 4 }
evaluation = { prompts = 4, every = 1, samples = 2 }
optimizer = { learning_rate = 1e-3 }
algorithm = "sft"
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "mine.toml"
    path.write_text(RUN)
    return path


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: str | Path) -> str:
    """What a command that must succeed prints, in one line."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_version() -> None:
    assert invoke("--version").output == f"groupwise {version('groupwise')}\n"


def test_help_teaches() -> None:
    text = done("--help")
    for word in ("train", "sample", "init", "export", "groupwise init follow_instructions"):
        assert word in text
    for command, word in (("train", "--resume"), ("sample", "--prompts"), ("export", "--step"), ("init", "--out")):
        assert word in done(command, "--help")


@pytest.mark.parametrize("name", packaged_runs())
def test_init_copies_a_packaged_run_and_writes_over_nothing(run_file: Path, name: str) -> None:
    assert f"wrote {name}.toml; run it with: groupwise train {name}.toml" in done("init", name)
    copied = Path(f"{name}.toml")
    assert load_run(copied).run == load_run(name).run
    copied.write_text("mine")
    result = invoke("init", name)
    assert result.exit_code == 2 and "is already there; give another file as --out" in result.stderr
    assert copied.read_text() == "mine"
    done("init", name, "--out", "other.toml")
    assert Path("other.toml").read_text() == packaged_runs()[name]


def test_init_of_a_run_that_is_not_packaged_names_those_that_are(run_file: Path) -> None:
    result = invoke("init", "sums")
    assert result.exit_code == 2
    assert "there is no packaged run 'sums'; use one of " in result.stderr and "sums_from_scratch" in result.stderr


def test_train_prints_what_it_does_and_leaves_a_folder(run_file: Path) -> None:
    text = done("train", run_file, "--out", "out", "--set", "steps=2")
    for expected in (
        "stage 0-sft: 2 steps of 4 prompts", "J = Σ W log π_θ", "task sums: 100 prompts to train on, 4 to evaluate on",
        "evaluation at step 0: reward", "step 1/2", "step 2/2", "What changed", "test reward", "run folder: out",
    ):  # fmt: skip
        assert expected in text, expected
    assert {path.name for path in Path("out").iterdir()} >= {"run.toml", "metrics.jsonl", "rollouts", "checkpoints"}
    assert load_run(Path("out/run.toml")).run.stages[0].steps == 2


def test_a_run_folder_is_named_after_the_run(run_file: Path) -> None:
    done("train", run_file, "--set", "steps=1", "--set", "evaluation.prompts=0")
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("mine-20")


def test_resume_goes_on_and_compares_a_run_file_given_too(run_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Trainer.step

    def killed(self: Trainer, stage) -> bool:
        if self.progress.step == 2:
            raise KeyboardInterrupt
        return plain(self, stage)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", killed)
        assert invoke("train", run_file, "--out", "out", "--set", "checkpoint.every=1").exit_code != 0
    refused = invoke("train", run_file, "--resume", "out")
    assert refused.exit_code == 2 and "checkpoint.every: 1 -> 0" in refused.stderr
    refused = invoke("train", "--resume", "out", "--set", "steps=9")
    assert refused.exit_code == 2 and "--set and --out don't go with --resume" in refused.stderr
    assert "resumed from step 2" in done("train", "--resume", "out")
    text = done("train", "--resume", "out")
    assert "resumed from step 3" in text and "nothing is left to do: all 3 steps are done" in text


def test_export_gives_a_folder_that_transformers_loads(run_file: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    done("train", run_file, "--out", "out", "--set", "checkpoint.every=1", "--set", "checkpoint.keep=3")
    ids = torch.tensor([[5, 9, 12]])
    logits = {}
    for step in ("1", "3", "last", "best"):
        text = done("export", "out", f"model-{step}", "--step", step)
        assert f"to model-{step}: it loads with AutoModelForCausalLM.from_pretrained" in text
        files = {path.name for path in Path(f"model-{step}").iterdir()}
        assert files >= {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"}
        assert AutoTokenizer.from_pretrained(f"model-{step}").decode(ids[0]) != ""
        logits[step] = AutoModelForCausalLM.from_pretrained(f"model-{step}")(ids).logits
    assert torch.equal(logits["last"], logits["3"])
    assert not torch.equal(logits["1"], logits["3"])
    checkpoint = AutoModelForCausalLM.from_pretrained("out/checkpoints/step-1")(ids).logits
    assert torch.equal(logits["1"], checkpoint)
    again = invoke("export", "out", "model-1")
    assert again.exit_code == 2 and "already exists and is not an empty folder" in again.stderr


def test_sample_shows_whether_there_is_anything_to_learn(run_file: Path) -> None:
    Path("reward.py").write_text("def reward(record):\n    return sum(map(ord, record.text)) % 2 == 0\n")
    run_file.write_text(
        RUN.replace('"sft"', '"grpo"') + '[[rewards]]\nname = "function"\nfile = "reward.py"\nworkers = 1\n'
    )
    result = invoke("sample", run_file, "--prompts", "6")
    assert result.exit_code == 0, result.output
    table = {}
    for line in result.output.splitlines():
        cells = [cell.strip() for cell in line.strip("│┃ ").split("│")]
        if len(cells) == 2:
            table[cells[0]] = cells[1]
    rate = float(table["pass rate"].rstrip("%")) / 100
    assert 0.2 < rate < 0.8
    observed = float(table["groups of 4 with signal, observed"].rstrip("%")) / 100
    assert observed * 6 == pytest.approx(round(observed * 6), abs=0.01)
    (theory,) = [float(value.rstrip("%")) / 100 for name, value in table.items() if "1 - p^G - (1-p)^G" in name]
    assert theory == pytest.approx(1 - rate**4 - (1 - rate) ** 4, abs=2e-3)
    assert float(table["mean reward"]) == pytest.approx(rate, abs=1e-3)
    examples = [line for line in result.output.splitlines() if line.strip().startswith("[")]
    prompts = [line for line in result.output.splitlines() if line.endswith("=") and "+" in line]
    assert len(examples) == 9 and len(set(prompts[-3:])) == 3
    assert not Path("runs").exists()


def test_sample_of_a_run_that_samples_nothing_is_refused(run_file: Path) -> None:
    result = invoke("sample", run_file)
    assert result.exit_code == 2 and "no stage of this run samples completions" in result.stderr


def test_a_run_whose_numbers_are_not_finite_ends_with_status_2(run_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Update.step

    def poisoned(self: Update, algorithm, batch, index: int):
        self.optimizers["policy"].parameters[-1].data.view(-1)[0] = float("nan")
        return plain(self, algorithm, batch, index)

    monkeypatch.setattr(Update, "step", poisoned)
    result = invoke(
        "train", run_file, "--out", "out", "--set", "optimizer.max_bad_steps=2", "--set", "evaluation.prompts=0"
    )
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert line.startswith(
        "error: stopped at step 2: 2 steps in a row gave no usable update (skipped: log_probs is nan"
    )
    assert "skipped: log_probs is nan" in " ".join(result.output.split())
