"""The example `examples/ladder`: its runs load, and its numbers are what they say."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from groupwise.algorithms import ALGORITHMS
from groupwise.run_file import load_run

FOLDER = Path(__file__).parents[1] / "examples" / "ladder"
BUDGET = 10_000


@pytest.fixture(scope="module")
def ladder() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    return importlib.import_module("run")


def test_every_rung_names_a_known_algorithm_and_loads(
    ladder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "write_pairs", lambda *_: {"name": "data", "path": str(tmp_path / "pairs.jsonl")})
    assert [rung.label for rung in ladder.RUNGS] == [
        "SFT", "RFT", "DPO", "Online RFT", "PPO", "GRPO+OS", "GRPO+PS", "Dr. GRPO", "DAPO", "GSPO", "VAPO",
    ]  # fmt: skip
    for rung in ladder.RUNGS:
        assert rung.algorithm["name"] in ALGORITHMS
        tree = ladder.stages_of(rung, 0, ladder.FULL, tmp_path, BUDGET, tmp_path)
        rows = tree.pop("rows", None)
        run = load_run(tree | ({"task": "rows"} if rows else {})).run
        budgets = [stage.max_tokens_sampled for stage in run.stages]
        assert sum(budgets) == BUDGET if rung.samples == "live" else budgets == [None]
        assert run.stages[-1].algorithm.needs.step_rewards == (rung.label == "GRPO+PS")


def test_an_interval_is_that_of_student_s_t(ladder: ModuleType) -> None:
    report = importlib.import_module("report")
    mean, half = report.interval([0.5, 0.6, 0.7])
    assert mean == pytest.approx(0.6) and half == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert report.interval([0.5]) == (0.5, None)


def test_gains_are_taken_within_a_seed(ladder: ModuleType) -> None:
    report = importlib.import_module("report")

    def rung(label: str, seed: int, accuracy: float) -> dict[str, Any]:
        return {"label": label, "seed": seed, "accuracy": accuracy, "tokens_sampled": 5, "steps": 2, "cpu_seconds": 1.0}

    rows = [rung("Start", 0, 0.1), rung("DAPO", 0, 0.5), rung("Start", 1, 0.3), rung("DAPO", 1, 0.7)]
    last = report.table(rows).splitlines()[-1]
    assert last == "| DAPO | 0.60 ± 1.27 | +0.40 ± 0.00 | 5 | 2 | 1 |"


def test_the_committed_results_are_of_every_rung(ladder: ModuleType) -> None:
    found = json.loads((FOLDER / "results" / "ladder.json").read_text("utf-8"))
    labels = {"Start", *(rung.label for rung in ladder.RUNGS)}
    assert {rung["label"] for rung in found["rungs"]} == labels
    assert {rung["seed"] for rung in found["rungs"]} == {0, 1, 2} and len(found["rungs"]) == 3 * len(labels)
    report = importlib.import_module("report")
    assert report.table(found["rungs"]) in (FOLDER / "results" / "ladder.md").read_text("utf-8")
    budgets = {rung["seed"]: rung["tokens_sampled"] for rung in found["rungs"] if rung["label"] == "RFT"}
    for rung in found["rungs"]:
        if rung["algorithm"] != "sft":
            over = rung["tokens_sampled"] / budgets[rung["seed"]]
            assert 1 <= over < 1.25, rung["label"]  # the rollout in hand is finished, and DAPO's may take many rounds
