"""Runs that train models that judge, and what held-out rows say of them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_resume import killed_after, resume
from tiny_runs import ROWS, Lines, coin, evaluation_rows, metric_rows, outcome, rollouts, same, tiny, weights

import groupwise
from groupwise.errors import DataError, ModelError
from groupwise.models.critic import Critic
from groupwise.models.loading import load_model
from groupwise.models.settings import CriticSettings, ModelSettings
from groupwise.packing import pack
from groupwise.rewards.learned.process import Process
from groupwise.rewards.learned.reward_model import RewardModel
from groupwise.rewards.records import record_for
from groupwise.tasks.rendering import render
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.summary import summarise
from groupwise.training import split_groups
from groupwise.training.exporting import export_run
from groupwise.types import Batch, Completion, Group, Segment

PAIRS = [{**row, "chosen": row["answer"], "rejected": str(2 * n + 1)} for n, row in enumerate(ROWS)]
STEPS = [
    {"id": row["id"], "prompt": row["prompt"], "steps": [f"a{n}", "b", f"c{n}"], "labels": [1, None, n % 2]}
    for n, row in enumerate(ROWS)
]
DATA = {"reward_model": PAIRS, "process_reward_model": STEPS}
CRITIC = {"learning_rate": 1e-3}
JUDGES = pytest.mark.parametrize("name", DATA)


def run_of(name: str, **changes: Any) -> dict[str, Any]:
    run = tiny(steps=4, prompts={"per_step": 4}, critic=CRITIC, checkpoint={"every": 1, "keep": 9}, **changes)
    return run | {"algorithm": name}


def train(name: str, out: Path, rows: Any = None, test: Any = None, **changes: Any) -> Path:
    run = run_of(name, evaluation={"prompts": 9}, **changes)
    rows = DATA[name] if rows is None else rows
    return groupwise.train(run, prompts=rows, test_prompts=test, out=out, display=Lines()).folder


def digest(folder: Path, step: int) -> str:
    return hashlib.sha256((folder / f"checkpoints/step-{step}/critic.safetensors").read_bytes()).hexdigest()


def critic_of(folder: Path, step: int) -> tuple[Critic, Any]:
    loaded = load_model(ModelSettings(name="builtin:tiny-char", dtype="float32"), seed=0, say=lambda line: None)
    critic = Critic.build(CriticSettings(), loaded, seed=0)
    critic.restore(folder / f"checkpoints/step-{step}/critic.safetensors")
    return critic, loaded


@JUDGES
def test_the_judge_is_trained_and_the_policy_is_not(name: str, tmp_path: Path) -> None:
    folder = train(name, tmp_path / "run", test=DATA[name][:3])
    rows = metric_rows(folder)
    assert [row["status"] for row in rows] == ["updated"] * 4
    assert rows[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)  # the head starts at 0
    assert rows[-1]["loss"] < rows[0]["loss"]
    for row in rows:
        assert row["loss"] == pytest.approx(row["value_loss"]) and row["critic_grad_norm"] > 0
        assert row["grad_norm"] is None and row["reward_mean"] is None and row["tokens_sampled"] == 0
        assert row["tokens_trained"] == 8  # of four pairs the last tokens, of four rows two labelled steps each
    assert weights(folder, 1) == weights(folder, 4) and digest(folder, 1) != digest(folder, 4)
    bias = load_file(folder / "checkpoints/step-4/critic.safetensors")["head.bias"]
    assert bool(bias) == (name == "process_reward_model")
    recorded = [row["reward"] for row in rollouts(folder)]
    assert set(recorded) == ({None} if name == "reward_model" else {0.0, 1.0})


@JUDGES
def test_a_killed_run_goes_on_bit_for_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, rows, test = run_of(name, evaluation={"prompts": 3, "every": 2}), DATA[name], DATA[name][:3]
    groupwise.train(run, prompts=rows, test_prompts=test, out=tmp_path / "unbroken", display=Lines())
    killed_after(2, monkeypatch, run, tmp_path / "broken", rows, test_prompts=test)
    _, lines = resume(tmp_path / "broken", rows, test_prompts=test)
    assert "resumed from step 2" in lines.lines
    same(outcome(tmp_path / "unbroken", 4), outcome(tmp_path / "broken", 4))
    assert digest(tmp_path / "unbroken", 4) == digest(tmp_path / "broken", 4)


def test_a_pair_is_never_split_however_small_micro_batches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[int, int]] = []
    plain = split_groups.take

    def take(batch: Batch, completions: Any) -> Batch:
        part = plain(batch, completions)
        cuts.append((len(part.group_ids), len(part.completion_spans)))
        return part

    whole = train("reward_model", tmp_path / "whole")
    monkeypatch.setattr(split_groups, "take", take)
    cut = train("reward_model", tmp_path / "cut", optimizer={"micro_batch_tokens": 1})
    assert cuts == [(1, 2)] * 16
    for one, other in zip(metric_rows(whole), metric_rows(cut), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["critic_grad_norm"] == pytest.approx(other["critic_grad_norm"], rel=1e-4)
        assert one["margin"] == pytest.approx(other["margin"], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "rows", "metric"),
    [
        ("reward_model", PAIRS, "pair_accuracy"),
        ("dpo", PAIRS, "pair_accuracy"),
        ("process_reward_model", STEPS, "step_accuracy"),
        ("sft", [{**row, "completion": row["answer"]} for row in ROWS], None),
    ],
)
def test_evaluations_have_the_loss_on_rows_that_nothing_trains_on(
    algorithm: str, rows: Any, metric: str | None, tmp_path: Path
) -> None:
    """Tested here on the rows trained on, so that it must fall."""
    lines = Lines()
    run = run_of(algorithm, evaluation={"prompts": 20, "every": 2})
    folder = groupwise.train(run, prompts=rows, test_prompts=rows, out=tmp_path / "run", display=lines).folder
    found = [row["eval"] for row in evaluation_rows(folder)]
    assert [row["step"] for row in evaluation_rows(folder)] == [0, 2, 4]
    assert found[-1]["held_out"]["loss"] < found[0]["held_out"]["loss"]
    assert found[0]["reward"] is None and found[0]["held_out_groups"] == len(rows)
    assert not (folder / "evaluations/step-000000.parquet").exists()
    assert f"held out: {len(rows)} written groups" in lines.text
    if metric is not None:
        assert found[0]["held_out"][metric] == 0.5
        assert found[0]["held_out"]["loss"] == pytest.approx(math.log(2), abs=1e-6)
        assert found[-1]["held_out"][metric] > 0.5
        low, high = found[-1]["held_out_interval"][metric]
        assert low <= found[-1]["held_out"][metric] <= high
    summary = summarise(RunFolder(folder))
    assert summary is not None
    change = next(change for change in summary.changes if change.name == "held-out loss")
    assert (change.before, change.after) == (found[0]["held_out"]["loss"], found[-1]["held_out"]["loss"])


def test_pairs_of_the_test_rows_are_compared_with_the_policy_that_the_stage_began_with(tmp_path: Path) -> None:
    """Held-out pairs of DPO have margins of 0 before training, and of pairs turned round the opposite after it."""

    def margins(test: Any, out: Path) -> list[float]:
        folder = groupwise.train(
            run_of("dpo", evaluation={"prompts": 9}), prompts=PAIRS, test_prompts=test, out=out, display=Lines()
        ).folder
        return [row["eval"]["held_out"]["margin"] for row in evaluation_rows(folder)]

    turned = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in PAIRS[:5]]
    one, other = margins(PAIRS[:5], tmp_path / "one"), margins(turned, tmp_path / "other")
    assert one[0] == other[0] == 0
    assert one[1] == pytest.approx(-other[1], rel=1e-3) and one[1] > 0


def test_a_policy_that_stands_still_is_not_sampled_for_an_evaluation(tmp_path: Path) -> None:
    lines = Lines()
    run = run_of("reward_model", evaluation={"prompts": 4})
    groupwise.train(run, prompts=PAIRS, test_prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=lines)
    assert evaluation_rows(tmp_path / "run") == []
    assert "no evaluation: there is nothing written in the test rows (pairs)" in lines.lines


def test_a_critic_goes_on_from_the_reward_model_of_the_stage_before(tmp_path: Path) -> None:
    stages = [{"algorithm": "reward_model", "steps": 3}, {"algorithm": "ppo", "steps": 2}]
    run = run_of("grpo", stages=stages)
    folder = groupwise.train(run, prompts=PAIRS, rewards=[coin()], out=tmp_path / "run", display=Lines()).folder
    rows = metric_rows(folder)
    assert rows[3]["explained_variance"] != 0  # its values are not those of a head of zeros
    assert all(row["value_loss"] > 0 and row["loss"] != row["value_loss"] for row in rows[3:])
    before, after = (load_file(folder / f"checkpoints/step-{n}/critic.safetensors")["head.bias"] for n in (3, 5))
    assert before == 0 and after != 0
    assert "reward model of step 3" in export_run(folder, tmp_path / "judge", "3")[-1]
    assert "AutoModelForCausalLM" in export_run(folder, tmp_path / "policy", "5")[-1]


def test_an_exported_reward_model_scores_as_the_trained_one_and_ppo_starts_from_it(tmp_path: Path) -> None:
    folder = train("reward_model", tmp_path / "run")
    lines = export_run(folder, tmp_path / "out")
    assert "AutoModelForSequenceClassification" in lines[-1]
    critic, loaded = critic_of(folder, 4)
    group = _group(PAIRS[3], ["6", "7"], loaded)
    records = [record_for(group.prompt, one, loaded.tokenizer, loaded.stop_ids, group.id) for one in group.completions]
    reward = RewardModel(model=str(tmp_path / "out"), device="cpu").build(tmp_path)
    scores = [score.value for score in reward.score(records)]
    with torch.no_grad():
        expected = critic.final_values(pack([group], temperature=1.0)).tolist()
    assert scores == pytest.approx(expected, abs=1e-5) and scores[0] != scores[1]
    run = tiny(steps=1, critic={**CRITIC, "start": str(tmp_path / "out")}) | {"algorithm": "ppo"}
    ppo = groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "ppo", display=Lines()).folder
    assert metric_rows(ppo)[0]["explained_variance"] != 0


def test_an_exported_process_reward_model_judges_steps_as_the_trained_one(tmp_path: Path) -> None:
    folder = train("process_reward_model", tmp_path / "run")
    assert "AutoModelForTokenClassification" in export_run(folder, tmp_path / "out")[-1]
    critic, loaded = critic_of(folder, 4)
    group = _group(STEPS[3], ["a3\nb\nc3"], loaded)
    record = record_for(
        group.prompt, group.completions[0], loaded.tokenizer, loaded.stop_ids, "g", with_token_ends=True
    )
    reward = Process(model=str(tmp_path / "out"), device="cpu").build(tmp_path)
    (score,) = reward.score([record])
    batch = pack([group], temperature=1.0)
    start = batch.completion_spans[0][0]
    assert score.step_ends == (1, 3, 6)
    with torch.no_grad():
        values = critic.values(batch, after=True)[[start + place for place in score.step_ends]]
    assert score.step_rewards == pytest.approx(values.sigmoid().tolist(), abs=1e-5)


def _group(row: dict[str, Any], texts: list[str], loaded: Any) -> Group:
    tokenizer = loaded.tokenizer
    completions = tuple(
        Completion((Segment((*tokenizer(text)["input_ids"], tokenizer.eos_token_id), None),), "stop") for text in texts
    )
    return Group(row["id"], render(row, tokenizer), completions, (None,) * len(texts))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"critic": {"start": "/nowhere/at-all"}}, ModelError, r"critic\.start = '/nowhere/at-all' can't be loaded"),
        ({"engine": {"name": "replay", "path": "/nowhere"}}, DataError, "no recorded rollouts in /nowhere"),
    ],
)
def test_what_a_run_starts_from_is_looked_for_before_a_model_loads(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupwise.training.api.load_model", None)
    run = tiny(**changes) | {"algorithm": "ppo"}
    with pytest.raises(error, match=message):
        groupwise.train(run, prompts=ROWS, rewards=[coin()], out=tmp_path / "run", display=Lines())
    assert not (tmp_path / "run").exists()


@JUDGES
def test_rows_without_what_is_learned_from_are_an_error(name: str, tmp_path: Path) -> None:
    missing = "`chosen`" if name == "reward_model" else "neither `steps` nor `step_ends`"
    with pytest.raises(DataError, match=f"row 'row-0' has .*{missing}"):
        train(name, tmp_path / "run", ROWS)
