"""The critic in whole runs: where it starts, how it is carried on, saved and resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_resume import killed_after, resume, train
from tiny_runs import ROWS, Lines, metric_rows, outcome, same, tiny

import groupwise
from groupwise.errors import ModelError
from groupwise.models.builtin import builtin_folder
from groupwise.models.critic import Critic
from groupwise.models.loading import load_model
from groupwise.models.settings import CriticSettings, ModelSettings
from groupwise.packing import pack
from groupwise.training.trainer import Trainer
from groupwise.types import Completion, Group, Prompt, Segment

CRITIC = {"learning_rate": 1e-3}
ENDLESS = {"name": "value_pretraining", "explained_variance": 1.0}


def run_of(*stages: dict[str, Any], **changes: Any) -> dict[str, Any]:
    run = tiny(critic=CRITIC, checkpoint={"every": 1, "keep": 9}, **changes)
    return {key: value for key, value in run.items() if key not in ("steps", "algorithm")} | {"stages": list(stages)}


def digests(folder: Path, step: int) -> dict[str, str]:
    """Of everything that goes on being trained: policy, critic, and their optimisers."""
    path = folder / f"checkpoints/step-{step}"
    names = sorted(entry.name for entry in path.iterdir() if entry.suffix in (".safetensors", ".pt"))
    return {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in names}


def entered(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor] | None]:
    """The critic's weights as each stage begins."""
    found: list[dict[str, torch.Tensor] | None] = []
    plain = Trainer.enter

    def enter(self: Trainer) -> Any:
        stage = plain(self)
        critic = stage.critic
        found.append(None if critic is None else {name: value.clone() for name, value in critic.state_dict().items()})
        return stage

    monkeypatch.setattr(Trainer, "enter", enter)
    return found


@pytest.mark.parametrize(
    ("updates", "step"), [({}, 3), ({"epochs": 2, "minibatches": 2}, 4)], ids=["one update", "four updates"]
)
def test_a_resumed_run_of_ppo_is_the_unbroken_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: dict[str, int], step: int
) -> None:
    run = run_of({"algorithm": {"name": "ppo", "beta": 0.1}, "steps": 8 if updates else 6, "updates": updates})
    last = run["stages"][0]["steps"]
    train(run, tmp_path / "unbroken")
    killed_after(step, monkeypatch, run, tmp_path / "broken")
    _, lines = resume(tmp_path / "broken")
    assert f"resumed from step {step}" in lines.lines
    same(outcome(tmp_path / "unbroken", last), outcome(tmp_path / "broken", last))
    found = digests(tmp_path / "unbroken", last)
    assert list(found) == ["critic.safetensors", "model.safetensors", "optimizer-critic.pt", "optimizer-policy.pt"]
    assert found == digests(tmp_path / "broken", last)
    assert found != digests(tmp_path / "unbroken", last - (4 if updates else 1))
    assert all(row["critic_grad_norm"] > 0 for row in metric_rows(tmp_path / "broken"))


def test_a_pretrained_critic_goes_on_in_the_next_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = entered(monkeypatch)
    run = run_of({"algorithm": ENDLESS, "steps": 3}, {"algorithm": "vc_ppo", "steps": 3})
    folder = train(run, tmp_path / "unbroken").folder
    first, second = seen
    assert first is not None and second is not None
    assert not first["head.weight"].any()
    saved = load_file(folder / "checkpoints/step-3/critic.safetensors")
    assert second.keys() == saved.keys() and all(torch.equal(second[name], saved[name]) for name in saved)
    assert saved["head.weight"].any()
    policy = [digests(folder, step)["model.safetensors"] for step in (1, 3, 6)]
    assert policy[0] == policy[1] != policy[2]  # value pretraining leaves the policy as it is
    assert "optimizer-policy.pt" not in digests(folder, 3)

    for step in (3, 5):  # between the stages, and in the second
        killed_after(step, monkeypatch, run, tmp_path / f"broken-{step}")
        resume(tmp_path / f"broken-{step}")
        same(outcome(folder, 6), outcome(tmp_path / f"broken-{step}", 6))
        assert digests(folder, 6) == digests(tmp_path / f"broken-{step}", 6)


def by_row() -> Callable[[Any], groupwise.Score]:
    """A reward that a critic can tell from the prompt, whatever the completion; in process, which starts at once."""
    return lambda record: groupwise.Score(
        float(int(record.prompt_id.removeprefix("row-")) >= 5), correct=len(record.text) > 2
    )


def test_a_stage_ends_once_enough_is_explained_and_so_does_a_resumed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = {"name": "value_pretraining", "explained_variance": 0.3}
    stages = ({"algorithm": early, "steps": 30, "prompts": {"per_step": 10}}, {"algorithm": "vapo", "steps": 2})
    run = run_of(*stages) | {"critic": {"learning_rate": 3e-3}}

    def go(out: Path) -> Path:
        return groupwise.train(run, prompts=ROWS, rewards=[by_row()], out=out, display=Lines()).folder

    folder = go(tmp_path / "unbroken")
    rows = metric_rows(folder)
    explained = [row["explained_variance"] for row in rows if row["stage"] == "0-value_pretraining"]
    assert 1 < len(explained) < 30
    assert explained[-1] > 0.3 and all(value <= 0.3 for value in explained[:-1])
    assert [row["stage"] for row in rows[len(explained) :]] == ["1-vapo"] * 2
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))

    plain = Trainer.step

    def step_or_die(self: Trainer, stage: Any) -> bool:
        if self.progress.step == len(explained) - 1:
            raise KeyboardInterrupt
        return plain(self, stage)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", step_or_die)
        go(tmp_path / "broken")
    groupwise.resume(tmp_path / "broken", prompts=ROWS, rewards=[by_row()], display=Lines())
    same(outcome(folder, len(rows)), outcome(tmp_path / "broken", len(rows)))
    assert digests(folder, len(rows)) == digests(tmp_path / "broken", len(rows))


def test_with_several_updates_a_stage_ends_after_the_rollout_that_explains_enough(tmp_path: Path) -> None:
    done = {"name": "value_pretraining", "explained_variance": -1.0}
    run = run_of({"algorithm": done, "steps": 6, "updates": {"epochs": 3}}, {"algorithm": "vc_ppo", "steps": 1})
    rows = metric_rows(train(run, tmp_path / "run").folder)
    assert [row["stage"] for row in rows] == ["0-value_pretraining"] * 3 + ["1-vc_ppo"]


def loaded_policy() -> Any:
    return load_model(ModelSettings(name="builtin:tiny-char", dtype="float32"), seed=0, say=lambda line: None)


def classifier(folder: Path, **changes: Any) -> Path:
    """A reward model of the tiny model's family, with random weights."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(builtin_folder("tiny-char"), **{"num_labels": 1, **changes})
    torch.manual_seed(7)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


def test_a_critic_starts_as_the_policy_with_a_head_of_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = entered(monkeypatch)
    folder = train(run_of({"algorithm": "ppo", "steps": 1}), tmp_path / "run").folder
    policy = loaded_policy().model.base_model.state_dict()
    (weights,) = seen
    assert weights is not None and not weights["head.weight"].any() and not weights["head.bias"].any()
    assert all(torch.equal(weights[f"backbone.{name}"], value) for name, value in policy.items())
    assert metric_rows(folder)[0]["explained_variance"] == pytest.approx(0, abs=1e-6)


def test_a_fresh_critic_has_weights_of_its_own_that_the_seed_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = entered(monkeypatch)
    for number, seed in enumerate((0, 0, 1)):
        run = run_of({"algorithm": "ppo", "steps": 1, "critic": {"start": "fresh"}}, seed=seed)
        train(run, tmp_path / f"run-{number}")
    policy = loaded_policy().model.base_model.state_dict()
    name = "layers.0.self_attn.q_proj.weight"
    once, again, other = (weights[f"backbone.{name}"] for weights in seen if weights is not None)
    assert torch.equal(once, again) and not torch.equal(once, other)
    assert not torch.equal(once, policy[name])


def test_a_critic_that_starts_as_a_reward_model_gives_its_scores(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    folder = classifier(tmp_path / "reward-model")
    critic = Critic.build(CriticSettings(start=str(folder)), loaded_policy(), seed=0)
    completions = tuple(Completion((Segment(ids, None),), "stop") for ids in ((7, 8, 1), (9, 1)))
    batch = pack([Group("g", Prompt("p", (3, 4, 5), ""), completions, (None, None))], temperature=1.0)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = [
            model(input_ids=torch.tensor([[3, 4, 5, *completion.token_ids]])).logits[0, 0] for completion in completions
        ]
        torch.testing.assert_close(critic.final_values(batch), torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_a_run_trains_a_critic_that_starts_as_a_reward_model(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "reward-model")
    run = run_of({"algorithm": "ppo", "steps": 2, "critic": {"start": str(folder)}})
    rows = metric_rows(train(run, tmp_path / "run").folder)
    assert [row["status"] for row in rows] == ["updated"] * 2 and rows[0]["explained_variance"] != 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: classifier(path, num_labels=2), "has 2 labels; give a model with one"),
        (lambda path: classifier(path, vocab_size=99), "has another vocabulary than the policy"),
        (lambda path: path, "can't be loaded"),
    ],
    ids=["two labels", "another vocabulary", "nothing there"],
)
def test_what_is_no_reward_model_of_the_family_is_an_error(
    tmp_path: Path, make: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        Critic.build(CriticSettings(start=str(make(tmp_path / "model"))), loaded_policy(), seed=0)
