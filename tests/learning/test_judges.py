"""Reward models and process reward models learn to judge what they never saw, and don't with the sign flipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from judging import DATA, accuracies, policy_that_knows_sums
from test_every_algorithm import turn_round

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return policy_that_knows_sums(tmp_path_factory.mktemp("policy"))


@pytest.mark.parametrize("name", DATA)
def test_it_learns_to_judge(name: str, policy: Path, tmp_path: Path) -> None:
    before, after = accuracies(name, policy, tmp_path / "run")
    assert before == 0.5
    assert after > DATA[name][3]


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_it_learns_the_opposite_with_the_sign_flipped(
    name: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_round(monkeypatch, name)
    before, after = accuracies(name, policy, tmp_path / "run")
    assert before == 0.5
    assert after < 0.5
