"""Runs of several stages, and the rows of metrics that every run leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import ROWS, Lines, all_rows, coin, evaluation_rows, metric_rows, rollouts, tiny

import groupwise
from groupwise.errors import DataError, RewardError
from groupwise.telemetry import metrics

# fmt: off
REQUIRED = (
    "step", "stage", "reward_mean", "reward_std", "reward_parts", "frac_degenerate_groups", "frac_truncated",
    "frac_not_scored", "completion_length_mean", "entropy", "kl_k1", "kl_k3", "clip_fraction_low", "clip_fraction_high",
    "ratio_max", "grad_norm", "learning_rate", "sampler_gap_max", "tokens_sampled", "tokens_trained", "seconds",
    "cpu_seconds", "peak_rss_mb",
)
OF_SAMPLING = (
    "reward_mean", "reward_std", "frac_degenerate_groups", "frac_not_scored", "clip_fraction_low", "clip_fraction_high",
    "ratio_max", "sampler_gap_max", "kl_k1", "kl_k3",
)
# fmt: on
DEMONSTRATIONS = [{**row, "completion": row["answer"]} for row in ROWS]


@pytest.fixture(scope="module")
def two_stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = {key: value for key, value in tiny(evaluation={"prompts": 3}).items() if key not in ("steps", "algorithm")}
    stages = [
        {"algorithm": "sft", "steps": 2, "optimizer": {"learning_rate": 1e-2}},
        {"algorithm": {"name": "grpo", "beta": 0.5}, "steps": 3},
    ]
    return groupwise.train(
        {**run, "stages": stages},
        prompts=DEMONSTRATIONS,
        test_prompts=ROWS[:3],
        rewards=[coin()],
        out=tmp_path_factory.mktemp("stages") / "run",
        display=Lines(),
    ).folder


def test_steps_count_over_the_whole_run_and_stages_have_names(two_stages: Path) -> None:
    rows = metric_rows(two_stages)
    assert [(row["step"], row["stage"]) for row in rows] == [
        (1, "0-sft"), (2, "0-sft"), (3, "1-grpo"), (4, "1-grpo"), (5, "1-grpo"),
    ]  # fmt: skip
    assert [row["learning_rate"] for row in rows] == [1e-2, 1e-2, 1e-3, 1e-3, 1e-3]


def test_every_row_has_every_metric_and_null_where_it_means_nothing(two_stages: Path) -> None:
    for row in metric_rows(two_stages):
        assert set(REQUIRED) <= set(row)
        supervised = row["stage"] == "0-sft"
        for name in OF_SAMPLING:
            assert (row[name] is None) == supervised, name
        for name in ("entropy", "grad_norm", "completion_length_mean", "tokens_trained"):
            assert row[name] > 0, name
        assert set(row["seconds"]) == {"rollout", "reward", "update", "record", "other"}
        assert all(value >= 0 for value in row["seconds"].values()), row["seconds"]
        assert row["cpu_seconds"] > 0 and row["peak_rss_mb"] > 50
        assert (row["tokens_sampled"] == 0) == supervised
        assert row["reward_parts"] == {} if supervised else row["reward_parts"]


def test_the_reference_is_the_policy_that_its_stage_began_with(two_stages: Path) -> None:
    kl = [row["kl_k3"] for row in metric_rows(two_stages)]
    assert kl[:2] == [None, None]
    assert kl[2] == 0
    assert kl[3] > 0 and kl[4] > 0


def test_what_was_sampled_adds_up(two_stages: Path) -> None:
    for row in metric_rows(two_stages)[2:]:
        sampled = [entry for entry in rollouts(two_stages) if entry["step"] == row["step"]]
        lengths = [len(entry["token_ids"]) for entry in sampled]
        assert row["tokens_sampled"] == sum(lengths)
        assert row["completion_length_mean"] == sum(lengths) / len(lengths)
        assert row["frac_truncated"] == sum(entry["finish_reason"] == "length" for entry in sampled) / len(sampled)
        assert row["reward_mean"] == sum(entry["reward"] for entry in sampled) / len(sampled)
        assert row["sampler_gap_max"] < 1e-5
        assert row["ratio_max"] == 1
        assert {entry["stage"] for entry in sampled} == {"1-grpo"}


def test_evaluations_are_rows_of_their_own(two_stages: Path) -> None:
    rows = evaluation_rows(two_stages)
    assert [(row["step"], row["stage"]) for row in rows] == [(0, "0-sft"), (2, "0-sft"), (5, "1-grpo")]
    for row in rows:
        assert set(row) == {"step", "stage", "eval"}
        assert row["eval"]["prompts"] == 3


def test_R102_evaluation_samples_on_its_own_and_names_the_best(tmp_path: Path) -> None:
    from groupwise.training.exporting import export_run

    tests = [{"id": f"test-{n}", "prompt": f"{n}+1=", "answer": str(n + 1)} for n in range(5)]
    run = tiny(steps=7, evaluation={"prompts": 5, "every": 3, "samples": 1}, optimizer={"learning_rate": 3e-3})
    folder = groupwise.train(
        run, prompts=ROWS, test_prompts=tests, rewards=[coin()], out=tmp_path / "run", display=Lines()
    ).folder
    evaluations = evaluation_rows(folder)
    assert [row["step"] for row in evaluations] == [0, 3, 6, 7]
    assert all(row["eval"]["samples"] == 1 and row["eval"]["prompts"] == 5 for row in evaluations)
    recorded = rollouts(folder, "evaluations")
    for row in evaluations:
        mine = [entry for entry in recorded if entry["step"] == row["step"]]
        assert [entry["prompt_id"] for entry in mine] == [f"test-{n}" for n in range(5)]
        assert row["eval"]["reward"] == pytest.approx(sum(entry["reward"] for entry in mine) / 5)
    assert not {entry["prompt_id"] for entry in rollouts(folder)} & {f"test-{n}" for n in range(5)}
    for row in metric_rows(folder):
        assert "eval" not in row
        sampled = [entry for entry in rollouts(folder) if entry["step"] == row["step"]]
        assert row["tokens_sampled"] == sum(len(entry["token_ids"]) for entry in sampled)
    highest = max(row["eval"]["reward"] for row in evaluations[1:])
    best = next(row["step"] for row in evaluations[1:] if row["eval"]["reward"] == highest)
    assert metrics.best_step(all_rows(folder)) == best
    assert f"exported step {best} to" in export_run(folder, tmp_path / "best", "best")[-1]


def test_evaluation_draws_the_same_every_time(tmp_path: Path) -> None:
    """With a policy that never changes, evaluations are equal: they differ by the policy alone."""
    run = tiny(steps=2, evaluation={"prompts": 3, "every": 1, "samples": 2})
    folder = groupwise.train(
        run, prompts=ROWS, test_prompts=ROWS[:3], rewards=[lambda record: 1.0], out=tmp_path / "run", display=Lines()
    ).folder
    texts = {row["step"]: [] for row in evaluation_rows(folder)}
    for entry in rollouts(folder, "evaluations"):
        texts[entry["step"]].append(entry["completion"])
    assert list(texts) == [0, 1, 2]
    assert texts[0] == texts[1] == texts[2]
    assert len(texts[0]) == 6 and len(set(texts[0])) > 1


def test_evaluation_can_be_greedy_and_longer_than_training(tmp_path: Path) -> None:
    run = tiny(steps=1, evaluation={"prompts": 2, "temperature": 0, "samples": 3, "max_tokens": 9})
    folder = groupwise.train(
        run, prompts=ROWS, test_prompts=ROWS[:2], rewards=[coin()], out=tmp_path / "run", display=Lines()
    ).folder
    greedy = rollouts(folder, "evaluations")[:6]
    assert len({entry["completion"] for entry in greedy[:3]}) == 1
    assert max(len(entry["token_ids"]) for entry in greedy) > 4


def test_a_run_without_a_reward_is_trained_but_not_evaluated(tmp_path: Path) -> None:
    lines = Lines()
    run = tiny(steps=1, algorithm={"name": "sft"}, evaluation={"prompts": 3})
    run["algorithm"] = "sft"
    folder = groupwise.train(
        run, prompts=DEMONSTRATIONS, test_prompts=ROWS[:3], out=tmp_path / "run", display=lines
    ).folder
    assert "no evaluation: there is no reward to evaluate with" in lines.lines
    assert evaluation_rows(folder) == []


@pytest.mark.parametrize(
    ("algorithm", "rows", "error", "message"),
    [
        ("grpo", ROWS, RewardError, "grpo needs a reward, and task rows has none of its own"),
        ("sft", ROWS, DataError, "row 'row-0' has no `completion`"),
    ],
)
def test_what_an_algorithm_needs_is_asked_for_before_a_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, rows: Any, error: type[Exception], message: str
) -> None:
    monkeypatch.setattr("groupwise.training.api.load_model", None)
    with pytest.raises(error, match=message):
        groupwise.train({**tiny(), "algorithm": algorithm}, prompts=rows, out=tmp_path / "run", display=Lines())
    assert not (tmp_path / "run").exists()
