"""Every algorithm teaches a tiny model something, and teaches it nothing where its gradient points the other way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judging import DATA
from pairs import TRAINED_ON, pair_accuracy
from sums_runs import RECIPES, accuracies, explained_variances

import groupwise
from groupwise.algorithms import ALGORITHMS
from groupwise.telemetry.display import Silent

BAR = 0.2
"""The least gain: in sampled accuracy, in accuracy on held-out pairs, in explained variance."""
QUICK = ("grpo", "ppo", "dapo")
"""Those that the plain suite runs."""
NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in RECIPES]

pytestmark = pytest.mark.learning


def turn_round(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is learnt is the opposite: the sign of the loss is flipped."""
    algorithm = ALGORITHMS[name]
    plain = algorithm.loss

    def loss(self: Any, *arguments: Any) -> Any:
        right = plain(self, *arguments)
        value = right.value if self.needs.policy or right.value is None else -right.value
        return replace(right, policy=-right.policy, coefficient=-right.coefficient, value=value)

    monkeypatch.setattr(algorithm, "loss", loss)


def test_every_algorithm_is_here() -> None:
    assert {*RECIPES, *DATA, "dpo", "value_pretraining"} == set(ALGORITHMS)


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_sums(name: str, start: Path, tmp_path: Path) -> None:
    before, after = accuracies(name, start, tmp_path / "run")
    assert 0.05 < before < 0.5
    assert after - before >= BAR


@pytest.mark.parametrize("name", NAMES)
def test_it_unlearns_them_with_the_sign_flipped(
    name: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_round(monkeypatch, name)
    before, after = accuracies(name, start, tmp_path / "run")
    assert 0.05 < before < 0.5
    assert after < before


def prefer(start: Path, out: Path) -> float:
    """Accuracy on held-out pairs after DPO; it is 0.5 before, where every margin is 0."""
    run = {
        "model": {"name": str(start), "dtype": "float32"},
        "algorithm": "dpo",
        "steps": 20,
        "prompts": {"per_step": 16},
        "optimizer": {"learning_rate": 3e-4},
    }
    folder = groupwise.train(run, prompts=TRAINED_ON, out=out, display=Silent()).folder
    return pair_accuracy(folder / "checkpoints/step-20", start)


@pytest.mark.slow
def test_dpo_learns_preferences(start: Path, tmp_path: Path) -> None:
    assert pair_accuracy(start, start) == 0.5
    assert prefer(start, tmp_path / "run") >= 0.5 + BAR


@pytest.mark.slow
def test_dpo_learns_none_with_the_sign_flipped(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right answers and answers that were never in a pair both lose to the wrong ones; which of them more is chance."""
    turn_round(monkeypatch, "dpo")
    assert prefer(start, tmp_path / "run") < 0.5 + BAR / 2


@pytest.mark.slow
def test_value_pretraining_explains_returns(start: Path, tmp_path: Path) -> None:
    explained = explained_variances(start, tmp_path / "run")
    assert explained[0] == pytest.approx(0, abs=1e-6)  # the critic's head starts at 0
    assert explained[-1] >= BAR


@pytest.mark.slow
def test_value_pretraining_explains_nothing_with_the_sign_flipped(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_round(monkeypatch, "value_pretraining")
    assert explained_variances(start, tmp_path / "run")[-1] < 0
