"""A stage that ends on a budget of sampled tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_resume import killed_after, resume, train
from tiny_runs import all_rows, metric_rows, outcome, same, tiny


def test_a_stage_ends_with_the_rollout_that_spends_the_budget(tmp_path: Path) -> None:
    train(tiny(steps=6), tmp_path / "free")
    sampled = [row["tokens_sampled"] for row in metric_rows(tmp_path / "free")]
    for budget, steps in ((sum(sampled[:3]), 3), (sum(sampled[:3]) + 1, 4), (1, 1), (sum(sampled) + 1, 6)):
        out = tmp_path / f"budget-{budget}"
        assert train(tiny(steps=6, max_tokens_sampled=budget), out).finished
        assert [row["tokens_sampled"] for row in metric_rows(out)] == sampled[:steps]


def test_all_updates_of_the_last_rollout_are_taken(tmp_path: Path) -> None:
    run = tiny(steps=8, max_tokens_sampled=1, updates={"epochs": 2, "minibatches": 2})
    train(run, tmp_path / "run")
    assert [row["step"] for row in metric_rows(tmp_path / "run")] == [1, 2, 3, 4]


def test_each_stage_has_its_own_budget(tmp_path: Path) -> None:
    run = tiny(steps=4)
    budget = {"algorithm": {"name": "grpo", "beta": 0.0}, "max_tokens_sampled": 20}
    del run["algorithm"]
    train({**run, "stages": [budget, budget]}, tmp_path / "run")
    spent = {stage: 0 for stage in ("0-grpo", "1-grpo")}
    for row in all_rows(tmp_path / "run"):
        assert spent[row["stage"]] < 20
        spent[row["stage"]] += row["tokens_sampled"]
    assert min(spent.values()) >= 20


def test_a_resumed_run_remembers_what_it_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny(steps=6), tmp_path / "free")
    budget = sum(row["tokens_sampled"] for row in metric_rows(tmp_path / "free")[:4])
    run = tiny(steps=6, max_tokens_sampled=budget, checkpoint={"every": 1})
    train(run, tmp_path / "unbroken")
    killed_after(2, monkeypatch, run, tmp_path / "broken")
    resume(tmp_path / "broken")
    same(outcome(tmp_path / "unbroken", 4), outcome(tmp_path / "broken", 4))
