"""What a step does with rewards that tell nothing, rewards that are missing, and numbers that are not finite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import ROWS, Lines, always, coin, metric_rows, rollouts, tiny, weights

import groupwise
from groupwise.errors import TrainingError
from groupwise.training import trainer
from groupwise.training.update import Update


def train(tmp_path: Path, reward: Any, *, display: Lines | None = None, rows: list = ROWS, **changes: Any) -> Path:
    run = tiny(**changes)
    return groupwise.train(run, prompts=rows, rewards=[reward], out=tmp_path / "run", display=display or Lines()).folder


def first_weights() -> str:
    """The digest of the weights that every run here begins with."""
    import hashlib

    from groupwise.models.builtin import builtin_folder

    return hashlib.sha256((builtin_folder("tiny-char") / "model.safetensors").read_bytes()).hexdigest()


def adam_steps(folder: Path, step: int) -> list[float]:
    state = torch.load(folder / f"checkpoints/step-{step}/optimizer-policy.pt", weights_only=True)["state"]
    return [float(entry["step"]) for entry in state.values()]


def test_R006_equal_rewards_are_no_signal_and_change_nothing(tmp_path: Path) -> None:
    folder = train(tmp_path, always(1.0), steps=2, optimizer={"weight_decay": 0.1})
    for row in metric_rows(folder):
        assert row["status"] == "no signal"
        assert row["grad_norm"] == 0 and row["loss"] == 0
        assert row["frac_degenerate_groups"] == 1
        assert row["tokens_trained"] == 0
    assert [row["steps_no_signal"] for row in metric_rows(folder)] == [1, 2]
    assert weights(folder, 2) == first_weights()
    assert adam_steps(folder, 2) == []


def test_R006_equal_rewards_at_the_reference_itself_are_no_signal_either(tmp_path: Path) -> None:
    folder = train(tmp_path, always(1.0), steps=2, algorithm={"name": "grpo", "beta": 0.5})
    for row in metric_rows(folder):
        assert row["status"] == "no signal" and row["grad_norm"] == 0
        assert row["kl_k3"] == 0 and row["tokens_trained"] > 0
    assert weights(folder, 2) == first_weights()
    assert adam_steps(folder, 2) == []


def test_R006_equal_rewards_away_from_the_reference_are_pulled_back(tmp_path: Path) -> None:
    verdict = coin()
    folder = train(
        tmp_path,
        lambda record: 1.0 if record.columns["answer"] in ("4", "6") else verdict(record),
        rows=ROWS[:4],
        steps=2,
        prompts={"per_step": 2, "shuffle": False},
        algorithm={"name": "grpo", "beta": 0.5},
    )
    second = metric_rows(folder)[1]
    assert second["frac_degenerate_groups"] == 1 and second["status"] == "updated"
    assert second["grad_norm"] > 0 and second["kl_k3"] > 0


def test_R006_mixed_rewards_have_a_gradient_though_the_loss_is_nothing(tmp_path: Path) -> None:
    folder = train(
        tmp_path, coin(), steps=1, sampling={"max_tokens": 1, "group_size": 8}
    )  # equal lengths: the weighted advantages of a group sum to zero
    (row,) = metric_rows(folder)
    assert row["status"] == "updated"
    assert abs(row["loss"]) < 1e-6
    assert row["grad_norm"] > 0.01
    assert row["frac_degenerate_groups"] == 0
    assert row["steps_no_signal"] == 0
    assert weights(folder, 1) != first_weights()


def test_R006_a_step_without_signal_between_others_leaves_the_optimiser_alone(tmp_path: Path) -> None:
    verdict = coin()
    folder = train(
        tmp_path,
        lambda record: 1.0 if record.columns["answer"] in ("0", "2") else verdict(record),
        rows=ROWS[:4],
        steps=2,
        prompts={"per_step": 2, "shuffle": False},
    )
    assert [row["status"] for row in metric_rows(folder)] == ["no signal", "updated"]
    assert set(adam_steps(folder, 2)) == {1.0}


def test_R049_when_all_completions_are_cut_off_and_masked_the_step_changes_nothing(tmp_path: Path) -> None:
    folder = train(
        tmp_path, coin(), steps=1, sampling={"max_tokens": 1}, algorithm={"name": "grpo", "overlong_filter": True}
    )
    (row,) = metric_rows(folder)
    assert row["frac_truncated"] == 1
    assert row["status"] == "no signal" and row["steps_no_signal"] == 1
    assert row["loss"] == 0 and row["grad_norm"] == 0
    assert weights(folder, 1) == first_weights()
    assert adam_steps(folder, 1) == []


@pytest.mark.parametrize("missing", [None, math.nan], ids=["None", "NaN"])
def test_R023_completions_that_cannot_be_scored_are_left_out_and_counted(tmp_path: Path, missing: Any) -> None:
    verdict = coin()
    folder = train(
        tmp_path,
        lambda record: missing if record.columns["answer"] == "0" else verdict(record),
        rows=ROWS[:2],
        steps=1,
    )
    (row,) = metric_rows(folder)
    assert row["status"] == "updated" and math.isfinite(row["grad_norm"])
    assert row["frac_not_scored"] == 0.5
    recorded = rollouts(folder)
    unscored = [entry for entry in recorded if entry["prompt_id"] == "row-0"]
    assert all(entry["reward"] is None and entry["correct"] is None for entry in unscored)
    assert all(set(entry["advantages"]) == {0.0} and entry["kept"] for entry in unscored)  # masked, and counted in N
    assert row["frac_degenerate_groups"] == 0.5 and row["frac_dropped_groups"] == 0
    assert row["tokens_trained"] == sum(len(entry["token_ids"]) for entry in recorded if entry["reward"] is not None)
    scored = [entry["reward"] for entry in recorded if entry["prompt_id"] == "row-1"]
    assert row["reward_mean"] == pytest.approx(sum(scored) / 4)


def test_R011_an_unscored_sibling_leaves_the_statistics_of_its_group(tmp_path: Path) -> None:
    from itertools import count

    calls, values = count(), [1.0, 0.0, 1.0, None]
    folder = train(tmp_path, lambda record: values[next(calls) % 4], rows=ROWS[:1], steps=1, prompts={"per_step": 1})
    spread = math.sqrt(2 / 9 + 1e-8)
    for entry, value in zip(rollouts(folder), values, strict=True):
        expected = 0.0 if value is None else (value - 2 / 3) / spread
        assert entry["advantages"] == pytest.approx([expected] * len(entry["token_ids"]), abs=1e-5)
    assert metric_rows(folder)[0]["frac_not_scored"] == 0.25


def test_R023_a_run_in_which_nothing_can_be_scored_stops(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"stopped at step 3: .* \(nothing could be scored: no reward"):
        train(tmp_path, always(None), steps=9, optimizer={"max_bad_steps": 3})
    rows = metric_rows(tmp_path / "run")
    assert [row["frac_not_scored"] for row in rows] == [1.0, 1.0, 1.0]
    assert [row["reward_mean"] for row in rows] == [None, None, None]


def poison(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Make a weight NaN while the update of these 1-based steps runs, and sound again after it."""
    plain = Update.step

    def poisoned(self: Update, algorithm, batch, index: int):
        if index + 1 not in steps:
            return plain(self, algorithm, batch, index)
        weight = self.optimizers["policy"].parameters[-1].data.view(-1)
        kept = weight[0].clone()
        weight[0] = math.nan
        try:
            return plain(self, algorithm, batch, index)
        finally:
            assert not math.isfinite(weight[0]), "the step was taken"
            weight[0] = kept

    monkeypatch.setattr(Update, "step", poisoned)


def test_a_step_with_log_probs_that_are_not_finite_is_skipped_named_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, {2})
    folder = train(tmp_path, coin(), steps=3, checkpoint={"every": 1, "keep": 3})
    rows = metric_rows(folder)
    assert [row["status"].partition(":")[0] for row in rows] == ["updated", "skipped", "updated"]
    assert "log_probs is nan at token" in rows[1]["status"]
    assert [row["steps_skipped"] for row in rows] == [0, 1, 1]
    assert weights(folder, 2) == weights(folder, 1) != weights(folder, 3)
    assert set(adam_steps(folder, 3)) == {2.0}
    assert {row["policy_version"] for row in rollouts(folder) if row["step"] == 3} == {1}


def test_a_gradient_that_is_not_finite_is_skipped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Update._apply

    def poisoned(self: Update, *arguments: Any):
        parameters = self.optimizers["policy"].parameters
        next(parameter for parameter in parameters if parameter.grad is not None).grad.view(-1)[0] = math.inf
        return plain(self, *arguments)

    monkeypatch.setattr(Update, "_apply", poisoned)
    folder = train(tmp_path, coin(), steps=1)
    assert metric_rows(folder)[0]["status"] == "skipped: the policy's gradient has norm inf"
    assert weights(folder, 1) == first_weights()
    assert adam_steps(folder, 1) == []


def test_a_run_stops_after_too_many_bad_steps_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, {1, 3, 4})
    with pytest.raises(TrainingError, match=r"stopped at step 4: 2 steps in a row gave no usable update \(skipped: "):
        train(tmp_path, coin(), steps=9, optimizer={"max_bad_steps": 2})
    assert [row["step"] for row in metric_rows(tmp_path / "run")] == [1, 2, 3, 4]


def test_R039_a_log_ratio_beyond_all_bounds_stays_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = trainer.annotate

    def far_reference(*arguments: Any, **named: Any):
        batch = plain(*arguments, **named)
        batch.ref_log_probs[batch.loss_mask.nonzero()[0]] += 119.0  # exp of it overflows float32
        return batch

    monkeypatch.setattr(trainer, "annotate", far_reference)
    folder = train(tmp_path, coin(), steps=1, algorithm={"name": "grpo", "beta": 0.1})
    (row,) = metric_rows(folder)
    assert row["status"] == "updated"
    assert math.isfinite(row["loss"]) and math.isfinite(row["grad_norm"])
    assert row["kl_clamp_fraction"] == pytest.approx(1 / row["tokens_trained"])


def test_R072_a_model_of_which_nothing_can_be_trained_stops_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Update.step

    def without_gradient(self: Update, algorithm, batch, index: int):
        with torch.no_grad():
            return plain(self, algorithm, batch, index)

    monkeypatch.setattr(Update, "step", without_gradient)
    with pytest.raises(TrainingError, match="the loss reaches no trainable parameter"):
        train(tmp_path, coin(), steps=1)


def one_step_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any
) -> list[torch.Tensor]:
    """The summed gradients of a run's first step, before clipping."""
    seen: list[torch.Tensor] = []
    plain = Update._apply

    def keep(self: Update, *arguments: Any):
        seen.extend(parameter.grad.clone() for parameter in self.optimizers["policy"].parameters)
        return plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Update, "_apply", keep)
        train(tmp_path / name, coin(), steps=1, **changes)
    return seen


@pytest.mark.parametrize(("beta", "aggregation"), [(0.5, "seq-mean-token-mean"), (0.0, "token-mean")])
def test_R001_R008_micro_batches_of_any_size_give_the_same_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beta: float, aggregation: str
) -> None:
    common: dict[str, Any] = {
        "algorithm": {"name": "grpo", "beta": beta, "aggregation": aggregation},
        "sampling": {"group_size": 8, "max_tokens": 12},
    }
    whole = one_step_gradients(tmp_path, monkeypatch, "whole", **common)
    for tokens in (1, 37):
        cut = {"learning_rate": 1e-3, "micro_batch_tokens": tokens}
        parts = one_step_gradients(tmp_path, monkeypatch, f"cut-{tokens}", **common, optimizer=cut)
        size = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in whole))
        gap = math.sqrt(sum(float((a - b).double().square().sum()) for a, b in zip(whole, parts, strict=True)))
        assert size > 0.1
        assert gap <= 1e-6 * max(size, 1), tokens


def test_R008_a_group_size_that_no_micro_batch_divides_trains(tmp_path: Path) -> None:
    folder = train(
        tmp_path, coin(), steps=2, sampling={"group_size": 7}, prompts={"per_step": 3},
        optimizer={"micro_batch_tokens": 1},
    )  # fmt: skip
    rows = metric_rows(folder)
    assert [row["status"] for row in rows] == ["updated", "updated"]
    assert len(rollouts(folder)) == 2 * 3 * 7
