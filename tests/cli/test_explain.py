"""`groupwise explain`: what it says is what the objects say, for every algorithm and for run files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from groupwise.algorithms import ALGORITHMS
from groupwise.cli import app
from groupwise.errors import RunFileError
from groupwise.training.explaining import explain

DOCS = Path(__file__).parents[2] / "docs" / "algorithms"

RUN = """
steps = 8
model = { name = "builtin:tiny-char", dtype = "float32" }
task = "sums"
algorithm = { name = "dapo", soft_overlong = { max_length = 12, cache = 4 } }
prompts = { per_step = 16 }
sampling = { group_size = 4, max_tokens = 12, temperature = 0.7 }
updates = { epochs = 2, minibatches = 2 }
"""


def flat(text: str) -> str:
    return " ".join(text.split())


def explained(source: str | Path, *overrides: str) -> str:
    return flat("\n".join(explain(str(source), overrides)))


def models(text: str) -> str:
    """The section on models, up to the settings."""
    return text.partition("Models in memory")[2].partition("Settings")[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_explained_in_full(name: str) -> None:
    cls, text = ALGORITHMS[name], explained(name)
    assert "arXiv:" in text.partition("Objective")[0], "the paper is named"
    assert flat(cls().objective()) in text
    for field, info in cls.model_fields.items():
        assert field == "name" or f" {field} " in text
        assert field == "name" or flat(info.description or "?") in text
    for difference in cls.differences:
        assert flat(difference) in text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_docs_quote_how_an_algorithm_differs_from_its_paper(name: str) -> None:
    cls = ALGORITHMS[name]
    assert "differences" in vars(cls) and cls.differences, "inherited ones are those of another paper"
    page = (DOCS / f"{name}.md").read_text("utf-8")
    section = flat(page.partition("## Differences")[2].partition("\n## ")[0])
    for difference in cls.differences:
        assert flat(difference) in section


@pytest.mark.parametrize("name", ALGORITHMS)
def test_models_in_memory_are_those_that_the_algorithm_needs(name: str) -> None:
    needs, said = ALGORITHMS[name]().needs, models(explained(name))
    known_before = needs.source != "prompts" or needs.sampling == "once"  # so its log-probs are taken once
    assert ("reference: a frozen copy" in said) == (needs.reference and not known_before)
    assert ("no second model for the reference" in said) == (needs.reference and known_before)
    assert ("critic: a copy" in said) == needs.critic
    assert ("policy: trained" in said) == needs.policy
    assert ("reward model" in said) == needs.rewards


def test_a_setting_changes_what_is_said() -> None:
    assert "reference: a frozen copy of the policy's trainable weights as the stage begins, because beta is 0.04" in (
        models(explained("grpo"))
    )
    without = explained("grpo", "beta=0")
    assert "no reference: beta is 0" in models(without)
    assert "beta = 0 (default 0.04)" in without and "clip_low = 0.2 (default)" in without
    assert "must give rewards of reasoning steps" in explained("grpo", "supervision=process")
    assert "it moves to the policy every 400 steps" in models(explained("grpo", "preset=deepseek-r1"))
    assert "ρ k3" in explained("grpo", "preset=trl-1.16", "beta=0.1")


def test_a_run_is_explained_with_its_numbers(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(RUN)
    text = explained(file)
    assert "Stage 0-dapo: 8 optimiser steps" in text
    assert "task sums; reward: the task's own" in text
    assert "16 prompts per rollout step with 4 completions each, at temperature 0.7" in text
    assert "further prompts sampled, up to 10 rounds" in text and "must give verdicts" in text
    assert "2 epochs x 2 minibatches = 4 optimiser steps per rollout" in text
    assert "the old policy is no network" in text
    assert "soft_overlong.cache = 4" in text and "per_step = 16 (default 8)" in text
    assert "Settings of [critic]" not in text
    critic = explained(file, 'algorithm={name="ppo"}', "critic.start=fresh", "model.lora.rank=4")
    assert "Settings of [critic]" in critic and "critic: the policy's architecture with random weights" in critic
    assert "LoRA adapters of rank 4" in critic and "new ones are 0: the model without them" in critic
    assert "length_constant = 12 (default not set)" in explained(file, 'algorithm={name="dr_grpo"}')


def test_every_stage_is_explained_and_a_critic_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    head, tail = RUN.split("algorithm = ")
    stages = "".join(f'[[stages]]\nalgorithm = "{name}"\n' for name in ("value_pretraining", "vapo"))
    file.write_text(head + tail.partition("\n")[2].partition("updates")[0] + stages)
    first, second = explained(file).split("Stage 1-vapo")
    assert "policy: samples, and is not trained" in first and "once explained_variance is above 0.5" in first
    assert "critic: a copy of the policy's layers" in first
    assert "critic: the critic of the stage before" in second


@pytest.mark.parametrize(
    ("source", "overrides", "message"),
    [
        ("grop", [], "there is no run file, packaged run or algorithm 'grop'; did you mean grpo?"),
        ("nothing like it", [], "give a run file, or one of sft, rft"),
        ("grpo", ["betta=0"], "did you mean beta"),
    ],
)
def test_what_cannot_be_explained_is_said_in_one_line(source: str, overrides: list[str], message: str) -> None:
    with pytest.raises(RunFileError, match=re.escape(message)):
        explain(source, overrides)


def test_the_command_prints_it_and_fails_with_status_2() -> None:
    result = CliRunner().invoke(app, ["explain", "rloo", "--set", "beta=0.1"], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "beta = 0.1   (default 0.05)" in result.output
    bullets = [line for line in result.output.splitlines() if line.startswith("    - ")]
    assert bullets and max(map(len, bullets)) <= 100
    assert CliRunner().invoke(app, ["explain", "rlo"]).exit_code == 2
