"""The plan of a run: its jobs, this machine's rates, and what was predicted beside what was measured."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch
from transformers import AutoConfig

from groupwise.algorithms import ALGORITHMS
from groupwise.algorithms.contract import Algorithm
from groupwise.models.devices import choose_compute_dtype, choose_device
from groupwise.models.policy import Policy
from groupwise.models.settings import LoraSettings
from groupwise.models.sources import base_of, is_adapter, resolve
from groupwise.planning import catalogue
from groupwise.planning.jobs import Job, Layout, PlannedNeeds
from groupwise.planning.lengths import Lengths
from groupwise.planning.machine import free_memory
from groupwise.planning.plan import Plan, plan
from groupwise.planning.rates import Measured, Rates
from groupwise.planning.shape import Shape
from groupwise.planning.showing import size_of
from groupwise.run import Run
from groupwise.training.demands import demands
from groupwise.training.preparation import Prepared

LIVE = ("grpo", "ppo", "dapo", "dr_grpo", "gspo", "vapo", "online_rft", "rft", "dpo", "sft")
"""Algorithms of the comparison, best known first."""

CACHE = Path.home() / ".cache" / "groupwise" / "calibrations"


def needs_of(names: Sequence[str] = LIVE) -> dict[str, PlannedNeeds]:
    """What each of these algorithms needs, with its default settings."""
    return {name: cast(Algorithm, ALGORITHMS[name]()).needs for name in names}


def jobs(run: Run, prepared: Sequence[Prepared], say: Callable[[str], None] = print) -> list[Job]:
    """One per stage. Completions are taken to have half of the tokens they may have on average: nothing was sampled."""
    shape = Shape.of(config_of(run.model.name, say))
    model = catalogue.Model(run.model.name, shape.parameters, shape)
    found = []
    for index, (stage, ready, demand) in enumerate(zip(run.stages, prepared, demands(prepared), strict=True)):
        lengths = [len(prompt.token_ids) for prompt in ready.prompts]
        written = [len(item.token_ids) for group in ready.written for item in group.completions]
        mean = sum(written) / len(written) if written else max(1.0, demand.completion / 2)
        found.append(
            Job(
                model,
                stage.algorithm.name,
                stage.algorithm.needs,
                Lengths(mean, demand.completion),
                prompts=demand.groups,
                samples=demand.samples,
                prompt=demand.prompt,
                mean_prompt=sum(lengths) / len(lengths),
                micro_batch_tokens=demand.micro_batch_tokens,
                rows=getattr(run.engine, "max_rows", 64),
                epochs=stage.updates.epochs,
                minibatches=stage.updates.minibatches,
                steps=stage.steps,
                stage=run.stage_name(index),
                lora=None if run.model.lora is None else run.model.lora.rank,
                layout=Layout(memory=free_memory()),
                checkpointing=None if run.model.gradient_checkpointing == "auto" else run.model.gradient_checkpointing,
            )
        )
    return found


def config_of(name: str, say: Callable[[str], None]) -> Any:
    """The transformers config of a run's model, of an adapter's base. Raises `ModelError`."""
    source = resolve(name, say)
    if is_adapter(source):
        return config_of(base_of(source), say)
    return AutoConfig.from_pretrained(source)


def calibrated(job: Job) -> Measured | None:
    """This machine's rates for the job's model where they were measured before, with as many threads; else None."""
    path = _calibration(job)
    if not path.is_file():
        return None
    fields = json.loads(path.read_text("utf-8"))
    return Measured(**{name: _table(value) for name, value in fields.items()})


def calibrate(job: Job, config: Any, lora: LoraSettings | None = None) -> Rates:
    """The same, measured now if they weren't: about ten seconds. config: the model's."""
    if (known := calibrated(job)) is not None:
        return known
    from groupwise.training import calibration

    measured = calibration.calibrate(config, lora)
    path = _calibration(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(measured)), "utf-8")
    return measured


def _calibration(job: Job) -> Path:
    """The file of what depends on the machine, its threads, torch, the model's shape, and on what is measured."""
    about = [
        [field.name for field in dataclasses.fields(Measured)],
        platform.processor(),
        platform.node(),
        torch.get_num_threads(),
        torch.__version__,
        job.model.shape,
        job.lora,
    ]
    return CACHE / f"{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}.json"


def _table(value: Any) -> Any:
    return {int(rows): seconds for rows, seconds in value.items()} if isinstance(value, dict) else value


def measurable(run: Run) -> bool:
    """Whether the run computes on this machine's processor in float32, which is what calibrations measure."""
    device = choose_device(run.model)
    return device.type == "cpu" and choose_compute_dtype(run.model, device)[0] == torch.float32


class Expectation:
    """What a run was predicted to take: said before a model is loaded, and compared at the end."""

    def __init__(self, run: Run, prepared: Sequence[Prepared], say: Callable[[str], None]) -> None:
        self.say, self.level = say, 0
        self.plans: list[Plan] = []
        if measurable(run):
            self.plans = [plan(job, others={}, rates=calibrated) for job in jobs(run, prepared, say)]
            self._begin()

    def _begin(self) -> None:
        largest = max(self.plans, key=lambda plan: plan.total)
        assert largest.memory is not None
        phase = largest.memory.binding
        parts = sorted(phase.components.items(), key=lambda part: -part[1])
        told = ", ".join(f"{name} {size_of(size)}" for name, size in parts[:4])
        free = "" if largest.free is None else f"; {size_of(largest.free)} are free"
        stage = f"stage {largest.job.stage}: " if len(self.plans) > 1 else ""
        self.say(f"plan: {stage}the {phase.name} needs the most, {size_of(phase.total)} ({told}){free}")
        for one in self.plans:
            if one.times is not None:
                self.say(
                    f"plan: stage {one.job.stage}: about {one.times.step:.3g} s a step, if completions have "
                    f"{one.job.lengths.mean:.0f} tokens, half of what they may have"
                )

    def loaded(self, policy: Policy) -> None:
        """The model is there; what else is in memory are libraries, which nothing was predicted of."""
        weights = sum(parameter.numel() * parameter.element_size() for parameter in policy.loaded.model.parameters())
        self.level = resident() - weights

    def end(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Say what was taken. rows: metrics of the steps that this process took."""
        steps = [row for row in rows if "eval" not in row]
        if not self.plans or not steps:
            return
        predicted = max(plan.total for plan in self.plans)
        measured = max(row["peak_rss_mb"] for row in steps) * 2**20 - self.level
        self.say(f"memory: {size_of(predicted)} were predicted, {size_of(measured)} taken at the peak")
        for one in self.plans:
            own = [row for row in steps if row["stage"] == one.job.stage]
            if own and (times := one.times) is not None:
                spent = median(row["cpu_seconds"] for row in own)
                tokens = median(row["tokens_sampled"] for row in own)
                self.say(
                    f"time: stage {one.job.stage}: {times.step:.3g} s a step were predicted for "
                    f"{times.sampled_tokens:.0f} sampled tokens; it took {spent:.3g} CPU seconds for {tokens:.0f}"
                )


def resident() -> int:
    """Bytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
