"""The example `examples/reward_models`: its data, its runs, and that its numbers are what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from groupwise.models.tiny_char import tokenizer, vocabulary
from groupwise.run_file import load_run
from groupwise.tasks import WorkedSums
from groupwise.tasks.step_labels import labelled_steps
from groupwise.types import Completion, Group, Prompt, Score, Segment

FOLDER = Path(__file__).parents[1] / "examples" / "reward_models"
TOKENIZER = tokenizer(vocabulary())


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """Its main module under a name of its own: that of the ladder is `run` too."""
    spec = importlib.util.spec_from_file_location("reward_models_example", FOLDER / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def sampled(*texts: str) -> Group:
    completions = tuple(
        Completion((Segment((*TOKENIZER(text)["input_ids"], vocabulary()["<eos>"]), None),), "stop") for text in texts
    )
    scores = tuple(Score(float(text == "5+4=9"), text == "5+4=9") for text in texts)
    return Group("2+3+4#0", Prompt("2+3+4", (1,), "2+3+4=", columns={"numbers": [2, 3, 4]}), completions, scores)


def test_steps_are_labelled_by_arithmetic_and_end_where_the_process_reward_reads_them(example: ModuleType) -> None:
    group = sampled("5+4=9", "5+4=8", "6+4=9", "5+4", "5+4=9=9", "5+4=9", "5+4=", "")
    rows = example.step_rows([group], TOKENIZER)
    assert [(row["completion"], row["labels"]) for row in rows] == [
        ("5+4=9", [1, 1]),
        ("5+4=8", [1, 0]),
        ("6+4=9", [0, 0]),
        ("5+4", [1]),
        ("5+4=9=9", [1, 1, 0]),
    ]
    for row in rows:
        ids, _, ends = labelled_steps(row, TOKENIZER)
        assert [end - 1 for end in row["step_ends"]] == list(ends)
        assert all(TOKENIZER.decode([ids[end + 1]]) in ("=", "<eos>") for end in ends)


def test_the_labels_are_those_of_the_tasks_own_answers(example: ModuleType) -> None:
    labels = sys.modules["samples"].labels
    for row in WorkedSums(largest=3).rows("train", 0):
        assert set(labels(row["completion"].split("="), row["numbers"])) == {1}


def test_pairs_are_of_a_right_and_a_wrong_sample(example: ModuleType) -> None:
    (row,) = example.pair_rows([sampled("5+4=8", "5+4=9")], TOKENIZER)
    assert (row["prompt"], row["chosen"], row["rejected"]) == ("2+3+4=", "5+4=9", "5+4=8")


def test_its_runs_load(example: ModuleType, tmp_path: Path) -> None:
    size = example.FULL
    for name in example.JUDGES:
        assert (
            load_run(example.judge_run(name, 0, size, tmp_path) | {"task": "rows"}).run.stages[0].algorithm.name == name
        )
    for what, changes in example.policies(tmp_path).items():
        stage = load_run(example.policy_run(0, size, tmp_path, changes)).run.stages[0]
        assert stage.algorithm.needs.step_rewards == ("process" in what)
        assert (stage.critic.start != "policy") == ("critic from" in what)


def test_the_committed_table_is_that_of_its_rows(example: ModuleType) -> None:
    found = json.loads((FOLDER / "results" / "full.json").read_text("utf-8"))
    assert example.table(found["rows"]) in (FOLDER / "results" / "full.md").read_text("utf-8")
    assert {row["what"] for row in found["rows"]} == {*example.JUDGES, *example.policies(FOLDER)}
    for row in found["rows"]:
        if row["what"] in example.JUDGES:
            assert row["before"] == 0.5 and row["after"] > 0.6
