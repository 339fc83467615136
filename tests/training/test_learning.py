"""A model that knows nothing learns one-digit sums; and stops learning where the maths is turned wrong.

A shorter version of the packaged run `sums_from_scratch`: a little SFT, then GRPO, on the sums of numbers below 4.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Lines, evaluation_rows

import groupwise
from groupwise import packing
from groupwise.algorithms.grpo import GRPO

SUMS = [
    {"id": f"{a}+{b}", "prompt": f"{a}+{b}=", "answer": str(a + b), "completion": str(a + b)}
    for a in range(4)
    for b in range(4)
]
RUN = {
    "model": {"name": "builtin:tiny-char", "dtype": "float32"},
    "rewards": [{"name": "exact"}],
    "prompts": {"per_step": 16},
    "sampling": {"group_size": 8, "max_tokens": 4},
    "evaluation": {"prompts": 16, "samples": 16},
    "stages": [
        {"algorithm": "sft", "steps": 4, "optimizer": {"learning_rate": 1e-3}},
        {"algorithm": {"name": "grpo", "beta": 0.0}, "steps": 30, "optimizer": {"learning_rate": 3e-4}},
    ],
}
SFT_STEPS, STEPS = 4, 34
BAR = 0.4
"""The least gain in mean reward on all sums; a sound run gains 0.6 to 0.8."""


def gain(out: Path) -> tuple[float, float]:
    """Mean reward after SFT, and what GRPO added to it."""
    folder = groupwise.train(RUN, prompts=SUMS, test_prompts=SUMS, out=out, display=Lines()).folder
    rewards = {row["step"]: row["eval"]["reward"] for row in evaluation_rows(folder)}
    return rewards[SFT_STEPS], rewards[STEPS] - rewards[SFT_STEPS]


@pytest.mark.learning
def test_grpo_teaches_sums(tmp_path: Path) -> None:
    before, gained = gain(tmp_path / "run")
    assert 0.1 < before < 0.6
    assert gained >= BAR


def wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Good completions are made less likely."""
    plain = GRPO.credit

    def credit(self: GRPO, *arguments: Any) -> Any:
        batch = plain(self, *arguments)
        return replace(batch, advantages=-batch.advantages)

    monkeypatch.setattr(GRPO, "credit", credit)


def wrong_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask begins one token late."""
    plain = packing.pack

    def pack(*arguments: Any, **named: Any) -> Any:
        batch = plain(*arguments, **named)
        mask = batch.loss_mask.clone()
        if batch.sampler_log_probs is not None:
            mask[[start for start, _ in batch.completion_spans]] = False
        return replace(batch, loss_mask=mask)

    monkeypatch.setattr("groupwise.training.trainer.pack", pack)


def wrong_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is predicted by what was computed at itself instead of at the token before it."""
    plain = packing.predictors

    def predictors(batch: Any) -> Any:
        rows = plain(batch)
        own = torch.arange(rows.numel(), device=rows.device)
        return rows if batch.sampler_log_probs is None else torch.where(rows >= 0, own, rows)

    monkeypatch.setattr("groupwise.models.forward.predictors", predictors)


@pytest.mark.learning
@pytest.mark.parametrize("mutate", [wrong_sign, wrong_mask, wrong_shift])
def test_the_bar_is_missed_where_the_maths_of_grpo_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Any
) -> None:
    mutate(monkeypatch)
    before, gained = gain(tmp_path / "run")
    assert 0.1 < before < 0.6  # SFT went as it should
    assert gained < 0
