"""Iterative GRPO: the reference follows the policy, before the rollout of a step, by a copy or by mixing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_resume import killed_after, resume, train
from tiny_runs import metric_rows, outcome, same, tiny

from groupwise.models.loading import trainable_parameters
from groupwise.models.reference import Reference
from groupwise.sources.live import Live


def run_of(mixing: float = 1.0, **changes: Any) -> dict[str, Any]:
    algorithm = {"name": "grpo", "beta": 0.5, "reference_refresh": {"every": 2, "mixing": mixing}}
    return tiny(algorithm=algorithm, optimizer={"learning_rate": 3e-3}, **changes)


def test_the_divergence_is_exactly_zero_right_after_a_copy(tmp_path: Path) -> None:
    folder = train(run_of(steps=6), tmp_path / "run").folder
    zero = [row["kl_k3"] == 0 and row["kl_k1"] == 0 for row in metric_rows(folder)]
    assert zero == [True, False, True, False, True, False]


def test_mixing_goes_part_of_the_way_before_the_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    plain, sample = Reference.refresh, Live.groups

    def refresh(self: Reference, mixing: float) -> None:
        before = {name: value.clone() for name, value in self._frozen.items()}
        policy = {name: value.detach().clone() for name, value in trainable_parameters(self._loaded).items()}
        plain(self, mixing)
        events.append("refresh")
        for name, value in self._frozen.items():
            torch.testing.assert_close(value, 0.25 * policy[name] + 0.75 * before[name])
        assert any(not torch.equal(policy[name], before[name]) for name in policy)

    def groups(self: Live, prompts: int) -> Any:
        events.append("rollout")
        return sample(self, prompts)

    monkeypatch.setattr(Reference, "refresh", refresh)
    monkeypatch.setattr(Live, "groups", groups)
    folder = train(run_of(0.25, steps=5), tmp_path / "run").folder
    assert events == ["rollout", "rollout", "refresh", "rollout", "rollout", "refresh", "rollout"]
    kl = [row["kl_k3"] for row in metric_rows(folder)]
    assert kl[0] == 0 and all(value > 0 for value in kl[1:])


def test_a_run_is_resumed_with_the_reference_that_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is neither the policy that the stage began with, nor the policy of the checkpoint."""
    run = run_of(0.5, steps=6, checkpoint={"every": 1})
    train(run, tmp_path / "unbroken")
    killed_after(4, monkeypatch, run, tmp_path / "broken")
    assert (tmp_path / "broken/checkpoints/step-4/reference.safetensors").is_file()
    _, lines = resume(tmp_path / "broken")
    assert "resumed from step 4" in lines.lines
    same(outcome(tmp_path / "unbroken", 6), outcome(tmp_path / "broken", 6))
