"""Several updates per rollout: what is frozen, what moves, and what is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import ROWS, Lines, metric_rows, rollouts, tiny

import groupwise
from groupwise.algorithms.grpo import GRPO
from groupwise.core.masks import PolicyInputs
from groupwise.models.reference import Reference
from groupwise.training import trainer
from groupwise.training.trainer import Trainer
from groupwise.training.update import Update
from groupwise.types import Batch


def places() -> Any:
    """A reward that gives every group a signal, no two completions being worth the same; in process."""

    @groupwise.group_reward
    def place(records: list[Any]) -> list[float]:
        return [float(number) for number in range(len(records))]

    return place


def train(out: Path, **changes: Any) -> Path:
    return groupwise.train(tiny(**changes), prompts=ROWS, rewards=[places()], out=out, display=Lines()).folder


def completions_of(batch: Batch, values: torch.Tensor) -> dict[tuple[str, tuple[int, ...]], list[float]]:
    """The values of each completion's tokens, by its group's id and its tokens."""
    found = {}
    for group, (begin, end) in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
        key = (batch.group_ids[group], tuple(batch.token_ids[begin:end].tolist()))
        found[key] = values[begin:end].tolist()
    return found


class Spied:
    """What the updates of a run got, and the weights that they left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.annotated: list[Batch] = []
        self.minibatches: list[Batch] = []
        self.weights: list[torch.Tensor] = []
        self.ratios: list[torch.Tensor] = []
        annotate, step, ratio = trainer.annotate, Update.step, GRPO.ratio

        def annotated(*arguments: Any, **named: Any) -> Batch:
            self.annotated.append(annotate(*arguments, **named))
            return self.annotated[-1]

        def stepped(update: Update, algorithm: Any, batch: Batch, index: int) -> Any:
            self.minibatches.append(batch)
            outcome = step(update, algorithm, batch, index)
            self.weights.append(next(update.policy.loaded.model.parameters()).detach().clone())
            return outcome

        def ratios(algorithm: GRPO, inputs: PolicyInputs) -> Any:
            found = ratio(algorithm, inputs)
            self.ratios.append(found.value.detach()[inputs.batch.loss_mask])
            return found

        monkeypatch.setattr(trainer, "annotate", annotated)
        monkeypatch.setattr(Update, "step", stepped)
        monkeypatch.setattr(GRPO, "ratio", ratios)


def test_R069_ratios_are_one_in_the_first_pass_and_off_in_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spied = Spied(monkeypatch)
    changes = {"updates": {"epochs": 2}, "optimizer": {"learning_rate": 1e-2}}
    folder = train(tmp_path / "run", steps=4, algorithm={"name": "grpo", "beta": 0.0, "clip_low": 0.05}, **changes)
    assert len(spied.annotated) == 2 and len(spied.ratios) == 4
    for first, second in (spied.ratios[:2], spied.ratios[2:]):
        assert (first == 1).all()
        assert (second - 1).abs().max() > 0.05
    for one, other in zip(spied.weights, spied.weights[1:], strict=False):
        assert not torch.equal(one, other)
    rows = metric_rows(folder)
    assert [row["ratio_max"] == 1 for row in rows] == [True, False, True, False]
    clipped = [row["clip_fraction_low"] + row["clip_fraction_high"] for row in rows]
    assert clipped[0] == clipped[2] == 0 and clipped[1] > 0 and clipped[3] > 0


@pytest.mark.parametrize("split", ["groups", "completions"])
def test_R069_each_sample_meets_its_own_old_log_prob_in_every_minibatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    spied = Spied(monkeypatch)
    updates = {"epochs": 2, "minibatches": 3, "split": split}
    train(tmp_path / "run", steps=6, updates=updates, prompts={"per_step": 6}, sampling={"max_tokens": 6})
    (whole,) = spied.annotated
    assert whole.old_log_probs is not None and whole.sampler_log_probs is not None
    assert (whole.old_log_probs - whole.sampler_log_probs).abs().max() < 1e-5  # those of the policy that sampled
    expected = completions_of(whole, whole.old_log_probs)
    assert len(expected) == 24, "no two completions of a group may be the same here"
    for epoch in (spied.minibatches[:3], spied.minibatches[3:]):
        met: dict[Any, list[float]] = {}
        for minibatch in epoch:
            assert minibatch.old_log_probs is not None
            found = completions_of(minibatch, minibatch.old_log_probs)
            assert len(found) == 8 and not found.keys() & met.keys()
            met |= found
        assert met == expected
    if split == "groups":
        assert [len(minibatch.group_ids) for minibatch in spied.minibatches] == [2] * 6
    orders = [[set(completions_of(batch, batch.rewards)) for batch in spied.minibatches[n : n + 3]] for n in (0, 3)]
    assert orders[0] != orders[1]  # another order in each pass
    for one, other in zip(spied.weights, spied.weights[1:], strict=False):
        assert not torch.equal(one, other)


def test_there_is_a_row_for_each_optimiser_step_and_a_rollout_stands_in_the_first_of_its_rows(tmp_path: Path) -> None:
    updates = {"epochs": 3, "minibatches": 2}
    folder = train(tmp_path / "run", steps=12, updates=updates, algorithm={"name": "grpo", "beta": 0.1})
    rows = metric_rows(folder)
    assert [row["step"] for row in rows] == list(range(1, 13))
    for number, row in enumerate(rows):
        of_the_rollout = number % 6 == 0
        for name in ("reward_mean", "reward_std", "frac_degenerate_groups", "frac_truncated", "completion_length_mean"):
            assert (row[name] is not None) == of_the_rollout, (number, name)
        assert (row["tokens_sampled"] > 0) == (row["seconds"]["rollout"] > 0) == of_the_rollout
        assert bool(row["reward_parts"]) == of_the_rollout
        for name in ("entropy", "kl_k3", "ratio_max", "clip_fraction_low", "grad_norm", "loss", "tokens_trained"):
            assert row[name] is not None, (number, name)
    recorded = rollouts(folder)
    assert {row["step"] for row in recorded} == {1, 7}
    assert {row["policy_version"] for row in recorded} == {0, 6}
    assert sum(row["tokens_trained"] for row in rows[:6]) == 3 * rows[0]["tokens_sampled"]


def test_fewer_groups_than_minibatches_leave_steps_without_signal(tmp_path: Path) -> None:
    """Where dynamic sampling finds one learnable group for two minibatches, one of them is empty."""

    @groupwise.group_reward
    def one_group(records: list[Any]) -> list[bool]:
        return [record.prompt_id == "row-3" and place % 2 == 0 for place, record in enumerate(records)]

    dapo = {"name": "dapo", "dynamic_sampling": {"max_rounds": 1}}
    run = tiny(steps=2, updates={"minibatches": 2}, prompts={"per_step": 10}) | {"algorithm": dapo}
    folder = groupwise.train(run, prompts=ROWS, rewards=[one_group], out=tmp_path / "run", display=Lines()).folder
    assert sorted(row["status"] for row in metric_rows(folder)) == ["no signal", "updated"]


def test_the_reference_is_refreshed_when_a_multiple_lies_among_a_rollouts_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    here: list[Trainer] = []
    refresh, plain = Reference.refresh, Trainer.step

    def refreshed(reference: Reference, mixing: float) -> None:
        steps.append(here[-1].progress.stage_step)
        refresh(reference, mixing)

    def step(self: Trainer, stage: Any) -> bool:
        here.append(self)
        return plain(self, stage)

    monkeypatch.setattr(Reference, "refresh", refreshed)
    monkeypatch.setattr(Trainer, "step", step)
    algorithm = {"name": "grpo", "beta": 0.1, "reference_refresh": {"every": 3}}
    train(tmp_path / "run", steps=10, updates={"epochs": 2}, algorithm=algorithm)
    assert steps == [4, 6]  # 3 lies among steps 3 and 4, 6 among 5 and 6; 9 is passed in the last rollout


def test_beta_follows_the_divergence_of_a_rollout_once_however_it_is_cut(tmp_path: Path) -> None:
    """The same samples in one step or in three: the coefficient moves by the same."""
    betas = []
    for number, minibatches in enumerate((1, 3)):
        algorithm = {
            "name": "grpo", "beta": 0.5, "kl_placement": "reward", "kl_estimator": "k1",
            "adaptive_kl": {"target": 0.5, "horizon": 100},
        }  # fmt: skip
        folder = train(
            tmp_path / f"run-{number}", steps=minibatches, updates={"minibatches": minibatches},
            prompts={"per_step": 3}, algorithm=algorithm,
        )  # fmt: skip
        state = json.loads((folder / f"checkpoints/step-{minibatches}/trainer.json").read_text())
        betas.append(state["algorithm"]["beta"])
    assert betas[0] == betas[1] == pytest.approx(0.5 * (1 - 0.2 * 12 / 100))


@pytest.mark.parametrize(("epochs", "warned"), [(1, False), (2, True)])
def test_online_rft_with_several_updates_is_warned_of(tmp_path: Path, epochs: int, warned: bool) -> None:
    lines = Lines()
    run = tiny(steps=2, updates={"epochs": epochs}) | {"algorithm": "online_rft"}
    verdict = lambda record: len(record.text) % 2 == 0  # noqa: E731 (a reward without a name of its own)
    groupwise.train(run, prompts=ROWS, rewards=[verdict], out=tmp_path / "run", display=lines)
    assert ("WARNING: online_rft has no ratio that corrects for updates" in lines.text) == warned
    assert ("one update per rollout" in lines.text) != warned
    assert ("2 updates per rollout, 2 epochs of 1 minibatches of groups" in lines.text) == warned
