"""Runs that train adapters: from a new one, from a trained one, and out into a plain model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import ROWS, Lines, coin, metric_rows, rollouts, tiny

import groupwise
from groupwise.models.builtin import builtin_folder
from groupwise.training.exporting import export_run
from groupwise.training.trainer import Trainer
from groupwise.training.update import Update

pytest.importorskip("peft")

LORA = {"model": {"name": "builtin:tiny-char", "dtype": "float32", "lora": {"rank": 4, "alpha": 8}}}
IDS = torch.tensor([[5, 9, 12, 7, 30, 31]])


def train(out: Path, **changes: Any) -> Path:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    return groupwise.train(tiny(**changes), prompts=rows, rewards=[coin()], out=out, display=Lines()).folder


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(IDS).logits


def test_R017_adapters_and_exports_of_a_run_give_the_trainers_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    from groupwise.models.saving import plain_attention

    trained: list[torch.Tensor] = []
    plain = Trainer.train

    def keep(self: Trainer) -> bool:
        finished = plain(self)
        with plain_attention(self.policy.loaded.model):
            trained.append(logits(self.policy.loaded.model))
        return finished

    monkeypatch.setattr(Trainer, "train", keep)
    folder = train(tmp_path / "run", **LORA, steps=3, optimizer={"learning_rate": 3e-2})
    checkpoint = folder / "checkpoints/step-3"
    assert (checkpoint / "adapter_model.safetensors").is_file() and not (checkpoint / "model.safetensors").exists()
    export_run(folder, tmp_path / "merged")
    adapter = AutoPeftModelForCausalLM.from_pretrained(checkpoint)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    base = AutoModelForCausalLM.from_pretrained(builtin_folder("tiny-char"))
    torch.testing.assert_close(logits(adapter), trained[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(logits(merged), trained[0], atol=1e-4, rtol=0)
    assert (logits(base) - trained[0]).abs().max() > 1e-3


def test_R045_an_adapter_that_is_trained_further_is_its_own_reference(tmp_path: Path) -> None:
    first = train(tmp_path / "sft", **LORA, algorithm="sft", steps=3, optimizer={"learning_rate": 3e-2})
    adapter = str(first / "checkpoints/step-3")
    model = {"name": adapter, "dtype": "float32"}
    second = train(tmp_path / "grpo", model=model, algorithm={"name": "grpo", "beta": 0.1}, steps=2)
    rows = metric_rows(second)
    assert rows[0]["kl_k3"] < 1e-6 and abs(rows[0]["kl_k1"]) < 1e-6
    assert rows[1]["kl_k3"] > 0
    assert rows[0]["grad_norm"] > 0
    assert (second / "checkpoints/step-2/adapter_model.safetensors").is_file()


def test_a_resumed_adapter_run_is_the_unbroken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {
        **LORA, "steps": 4, "checkpoint": {"every": 2}, "algorithm": {"name": "grpo", "beta": 0.1},
        "optimizer": {"learning_rate": 1e-2},
    }  # fmt: skip
    whole = train(tmp_path / "whole", **changes)
    plain = Trainer.step

    def step_or_die(self: Trainer, stage: Any) -> bool:
        if self.progress.step == 3:
            raise KeyboardInterrupt
        return plain(self, stage)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", step_or_die)
        train(tmp_path / "broken", **changes)
    lines = Lines()
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    groupwise.resume(tmp_path / "broken", prompts=rows, rewards=[coin()], display=lines)
    assert "resumed from step 2" in lines.lines
    assert rollouts(whole) == rollouts(tmp_path / "broken")
    ends = [folder / "checkpoints/step-4/adapter_model.safetensors" for folder in (whole, tmp_path / "broken")]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    kl = [[row["kl_k3"] for row in metric_rows(folder)] for folder in (whole, tmp_path / "broken")]
    assert kl[0] == kl[1] and kl[0][3] > 0


def test_an_adapter_without_effect_is_reported_when_it_is_saved(tmp_path: Path) -> None:
    lines = Lines()
    groupwise.train(
        tiny(**LORA, steps=1), prompts=ROWS, rewards=[lambda record: 1.0], out=tmp_path / "run", display=lines
    )
    assert "the adapter changes nothing" in lines.text


def test_R072_adapters_learn_the_same_with_gradient_checkpointing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Update._apply
    seen: list[list[torch.Tensor]] = []

    def keep(self: Update, *arguments: Any) -> Any:
        seen[-1].extend(parameter.grad.clone() for parameter in self.optimizers["policy"].parameters)
        return plain(self, *arguments)

    monkeypatch.setattr(Update, "_apply", keep)
    for checkpointing in (False, True):
        seen.append([])
        model = {**LORA["model"], "gradient_checkpointing": checkpointing}
        train(tmp_path / f"run-{checkpointing}", model=model, steps=2, optimizer={"learning_rate": 1e-2})
    half = len(seen[0]) // 2  # the second step: at the first, B is zero and A has no gradient
    for without, with_it in zip(seen[0][half:], seen[1][half:], strict=True):
        assert with_it.abs().max() > 0
        torch.testing.assert_close(with_it, without, atol=1e-5, rtol=0)


def test_the_checkpoint_of_an_adapter_names_its_base(tmp_path: Path) -> None:
    folder = train(tmp_path / "run", **LORA, steps=1)
    config = json.loads((folder / "checkpoints/step-1/adapter_config.json").read_text())
    assert Path(config["base_model_name_or_path"]) == builtin_folder("tiny-char")
