"""groupwise's side: `python ours.py SCENARIO MODE`, with the trainer that `groupwise train` runs.

MODE is `live` (sample, score, update) or `replay` (update on recorded completions).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from channel import THREADS, Stopwatch, commands
from scenarios import SCENARIOS, Scenario

import groupwise  # noqa: F401 (sets how threads wait, before torch is imported)
from groupwise.engines.contract import Request
from groupwise.engines.torch import TorchEngine
from groupwise.models.loading import load_model
from groupwise.models.policy import Policy
from groupwise.rewards.combine import Combined, Part
from groupwise.rewards.contract import Record
from groupwise.run_file import load_run, to_toml
from groupwise.telemetry.display import Silent
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training import environment
from groupwise.training.preparation import Prepared
from groupwise.training.trainer import Trainer
from groupwise.types import Completion, Prompt, Score, Segment

MODEL = "builtin:smollm2-135m-instruct"


class Scored:
    """The scenario's rewards, by place in the step."""

    name = "scenario"

    def __init__(self, scenario: Scenario) -> None:
        self.values = [value for group in scenario.rewards() for value in group]

    def check(self, rows: Sequence[Any]) -> None: ...

    def score(self, records: Sequence[Record]) -> list[Score]:
        return [Score(value) for value in self.values]

    def close(self) -> None: ...


class FixedLengths(TorchEngine):
    """The in-process engine; each completion has the scenario's length."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self.lengths = scenario.lengths()

    def load(self, policy: Policy, version: int) -> None:
        super().load(policy, version)
        self.stop_ids = frozenset()

    def submit(self, requests: Sequence[Request]) -> None:
        super().submit(
            [
                replace(request, sampling=replace(request.sampling, max_tokens=self.lengths[request.key.sample]))
                for request in requests
            ]
        )


class Recorded:
    """An engine that answers with recorded completions."""

    def __init__(self, recorded: list[list[dict[str, Any]]]) -> None:
        self.completions = [
            Completion((Segment(tuple(one["token_ids"]), tuple(one["log_probs"])),), "length")
            for group in recorded
            for one in group
        ]

    def load(self, policy: Policy, version: int) -> None: ...

    def submit(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)

    def collect(self) -> list[tuple[int, Completion]]:
        return [(request.id, replace(self.completions[request.id], key=request.key)) for request in self.requests]


def trainer_for(scenario: Scenario, folder: Path) -> Trainer:
    """The trainer of a run with this scenario's prompts."""
    run = load_run(
        {
            "model": {"name": MODEL, "dtype": "float32"},
            "task": "sums",  # stands in: the prompts below are used
            "algorithm": {"name": "grpo", "preset": "trl-1.16"},
            "steps": 10_000,
            "prompts": {"per_step": scenario.groups, "shuffle": False},
            "sampling": {"group_size": scenario.group_size, "max_tokens": scenario.max_tokens},
            "optimizer": {"learning_rate": 1e-6, "max_grad_norm": 1e9, "micro_batch_tokens": 16384},
            "checkpoint": {"every": 0},
            "evaluation": {"every": 0},
        }
    ).run
    prompts = [Prompt(str(number), tuple(ids), "") for number, ids in enumerate(scenario.prompts())]
    reward = Combined([Part("scenario", 1.0, Scored(scenario))])
    policy = Policy.of(load_model(run.model, seed=0, say=lambda line: None))
    run_folder = RunFolder.check_free(folder)
    run_folder.make(to_toml(run), environment.describe(policy))
    prepared = Prepared(run.stages[0], prompts, [], [], [], reward, [])
    return Trainer(run, [prepared], policy, run_folder, Silent())


def main() -> None:
    torch.set_num_threads(THREADS)
    scenario, mode = SCENARIOS[sys.argv[1]], sys.argv[2]
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as temporary:
        trainer = trainer_for(scenario, Path(temporary) / "run")
        trainer.engine = (
            FixedLengths(scenario) if mode == "live" else Recorded(json.loads(Path(sys.argv[3]).read_text()))
        )
        stage = trainer.enter()
        sampler = stage.source.sampler
        for owner, method, phase in ((trainer.engine, "collect", "rollout"), (sampler.reward, "score", "reward")):
            _time(owner, method, phase, watch)
        for command, answer in commands():
            optimizer = stage.update.active["policy"]
            if command["do"] == "gradient":
                _write_gradient(trainer.policy, optimizer, Path(command["path"]))
                trainer.step(stage)
                answer({})
            elif command["do"] == "record":
                _write_rollout(trainer.engine, stage, Path(command["path"]))
                answer({})
            else:
                watch.clear()
                with watch.phase("step"):
                    trainer.step(stage)
                answer(watch.report())


def _time(owner: Any, method: str, phase: str, watch: Stopwatch) -> None:
    plain = getattr(owner, method)

    def timed(*args: Any) -> Any:
        with watch.phase(phase):
            return plain(*args)

    object.__setattr__(owner, method, timed)


def _write_gradient(policy: Policy, optimizer: Any, path: Path) -> None:
    """Before the next optimiser step, write every parameter's gradient."""
    from safetensors.torch import save_file

    plain = optimizer.clip

    def clip() -> float:
        named = policy.loaded.model.named_parameters()
        save_file({name: value.grad.contiguous() for name, value in named if value.grad is not None}, path)
        optimizer.clip = plain
        return plain()

    optimizer.clip = clip


def _write_rollout(engine: TorchEngine, stage: Any, path: Path) -> None:
    """Sample one step's groups and write them, for both sides to train on."""
    groups = stage.source.groups(stage.settings.prompts.per_step).groups
    recorded = [
        [
            {"token_ids": list(one.token_ids), "log_probs": list(one.segments[0].sampler_log_probs or ())}
            for one in group.completions
        ]
        for group in groups
    ]
    path.write_text(json.dumps(recorded))


if __name__ == "__main__":
    main()
