"""What `groupwise plan` was asked for, as jobs: a run file's, or a model and an algorithm with assumptions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from groupwise.algorithms import ALGORITHMS
from groupwise.errors import DataError, RunFileError
from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import LoraSettings
from groupwise.planning import catalogue, devices
from groupwise.planning.devices import THIS_MACHINE
from groupwise.planning.jobs import GPU_ACCOUNTING, OWN_ACCOUNTING, Job, Layout, PlannedNeeds
from groupwise.planning.lengths import Lengths
from groupwise.planning.machine import free_memory
from groupwise.planning.networks import SEED_REWARD_MODELS
from groupwise.planning.rates import Rates
from groupwise.planning.signal import Beta, KnownRates, PassRates
from groupwise.run_file import load_run
from groupwise.training.planned import calibrate, calibrated, config_of, jobs, measurable, needs_of
from groupwise.training.preparation import check_parts, prepare

MEAN_TOKENS, MAX_TOKENS = 512, 1024
"""Of completions, where nothing says how long they are."""

MOST_SAMPLED = 10**6
"""Completions of one prompt beyond which a count is a slip."""

MODELS_TIMED_HERE = 3e9
"""Parameters up to which this machine's speed is measured: of larger ones not even two layers are quickly made."""


@dataclass(frozen=True)
class Wishes:
    """The command line's options; None: not given."""

    run: str | None = None
    overrides: Sequence[str] = ()
    model: str | None = None
    algorithm: str | None = None
    accounting: str | None = None
    parameters: float | None = None
    gpu: str | None = None
    gpus: int = 1
    engine_gpus: int = 0
    tensor_parallel: int = 1
    reward_models: int | None = None
    lora: int | None = None
    base: str | None = None
    prompts: int | None = None
    group_size: int | None = None
    prompt_tokens: int | None = None
    tokens: float | None = None
    max_tokens: int | None = None
    micro_batch_tokens: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Planned:
    """Jobs, and what to compare them with."""

    jobs: Sequence[Job]
    others: Mapping[str, PlannedNeeds]
    config: Any = None
    """The model's, where this machine can be timed in place of the job's device."""
    lora: LoraSettings | None = None

    def rates(self, say: Callable[[str], None]) -> Callable[[Job], Rates] | None:
        """How this machine's speed is found, if it can be."""
        if self.config is None:
            return None

        def measured(job: Job) -> Rates:
            if calibrated(job) is None:
                say("measuring this machine, about ten seconds (once for each model and number of threads)")
            return calibrate(job, self.config, self.lora)

        return measured


def planned(wishes: Wishes, say: Callable[[str], None]) -> Planned:
    """Raises `UserError` for what can't be planned; reads no weights."""
    if (wishes.run is None) == (wishes.model is None):
        raise RunFileError(
            "give a run file, or a model with --model", fix="for example: groupwise plan --model qwen2.5-7b"
        )
    if wishes.run is not None and wishes.algorithm is not None:
        raise RunFileError("--algorithm beside a run file, which names its own", fix="use --set algorithm.name=...")
    if wishes.model is not None and wishes.overrides:
        raise RunFileError("--set without a run file has nothing to change", fix="leave it out")
    return _of_run(wishes, say) if wishes.run is not None else _of_model(wishes, say)


def _of_run(wishes: Wishes, say: Callable[[str], None]) -> Planned:
    run = load_run(wishes.run or "", wishes.overrides).run
    tokenizer = load_tokenizer(run.model, say)
    check_parts(run, say)
    prepared = []
    try:
        for stage in run.stages:
            prepared.append(prepare(stage, tokenizer, run.seed, say))
        found = [_changed(job, wishes) for job in jobs(run, prepared, say)]
    finally:
        for ready in prepared:
            if ready.reward is not None:
                ready.reward.close()
    here = wishes.gpu in (None, THIS_MACHINE) and measurable(run)
    return Planned(found, needs_of(), config_of(run.model.name, say) if here else None, run.model.lora)


def _of_model(wishes: Wishes, say: Callable[[str], None]) -> Planned:
    assert wishes.model is not None
    model = catalogue.find(wishes.model)
    algorithm = wishes.algorithm or "grpo"
    if algorithm not in ALGORITHMS:
        near = get_close_matches(algorithm, ALGORITHMS, 1)
        fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(ALGORITHMS)}"
        raise RunFileError(f"algorithm {algorithm!r} is unknown", fix=fix)
    needs = needs_of([algorithm])[algorithm]
    learned = int(algorithm in SEED_REWARD_MODELS)
    longest = wishes.max_tokens if wishes.max_tokens is not None else MAX_TOKENS
    lengths = Lengths(wishes.tokens if wishes.tokens is not None else min(MEAN_TOKENS, longest), longest)
    job = _changed(Job(model, algorithm, needs, lengths, reward_models=learned), wishes)
    if wishes.gpu is None and wishes.gpus == 1 and not wishes.engine_gpus:
        job = replace(job, layout=Layout())  # nothing was said of devices, so nothing of what is free
    say_assumed(wishes, say)
    small = job.parameters <= MODELS_TIMED_HERE
    here = wishes.gpu == THIS_MACHINE and small and Path(wishes.model).expanduser().is_dir()
    if job.layout.device is None and not here and wishes.accounting != "seed":
        say("no time is predicted: give --gpu NAME, a run file, or with --gpu cpu the folder of a small model")
    return Planned([job], needs_of(), config_of(wishes.model, say) if here else None)


def say_assumed(wishes: Wishes, say: Callable[[str], None]) -> None:
    """Which numbers nobody gave."""
    if wishes.accounting == "seed":
        return
    asked = {
        "--prompts": wishes.prompts, "--group-size": wishes.group_size, "--prompt-tokens": wishes.prompt_tokens,
        "--tokens": wishes.tokens, "--max-tokens": wishes.max_tokens,
        "--micro-batch-tokens": wishes.micro_batch_tokens, "--gpu": wishes.gpu,
    }  # fmt: skip
    if missing := [name for name, value in asked.items() if value is None]:
        say(f"assumed, since it wasn't given: {', '.join(missing)}")


def _changed(job: Job, wishes: Wishes) -> Job:
    """The job with what the command line says of it."""
    _check(job, wishes)
    if wishes.parameters is not None and not wishes.parameters < math.inf:
        raise RunFileError(f"--parameters {wishes.parameters} is no size", fix="give a number such as 70e9")
    layout = job.layout
    if wishes.gpu not in (None, THIS_MACHINE):
        assert wishes.gpu is not None
        layout = Layout(devices.find(wishes.gpu), None, wishes.gpus, wishes.tensor_parallel, wishes.engine_gpus)
    elif wishes.gpus > 1 or wishes.engine_gpus or wishes.tensor_parallel > 1:
        raise RunFileError(f"--gpus {wishes.gpus} of no kind", fix="name the kind, for example --gpu h100")
    else:
        layout = replace(layout, memory=free_memory())
    changes: dict[str, Any] = {
        "prompts": wishes.prompts,
        "samples": wishes.group_size,
        "prompt": wishes.prompt_tokens,
        "mean_prompt": wishes.prompt_tokens,
        "micro_batch_tokens": wishes.micro_batch_tokens,
        "steps": wishes.steps,
        "lora": wishes.lora,
        "base": wishes.base,
        "reward_models": wishes.reward_models,
        "size": None if wishes.parameters is None else round(wishes.parameters),
        "accounting": wishes.accounting or (OWN_ACCOUNTING if layout.device is None else GPU_ACCOUNTING),
    }
    if wishes.run is not None and (wishes.tokens is not None or wishes.max_tokens is not None):
        longest = wishes.max_tokens if wishes.max_tokens is not None else job.lengths.longest
        changes["lengths"] = Lengths(
            wishes.tokens if wishes.tokens is not None else min(job.lengths.mean, longest), longest
        )
    return replace(job, layout=layout, **{name: value for name, value in changes.items() if value is not None})


def _check(job: Job, wishes: Wishes) -> None:
    least = getattr(job.needs, "min_group_size", 1)
    size = job.samples if wishes.group_size is None else wishes.group_size
    if size < least:
        raise RunFileError(
            f"a group size of {size} gives {job.algorithm} nothing to compare a completion with",
            fix=f"give --group-size {least} or more",
        )
    for name, value in (("prompt-tokens", wishes.prompt_tokens), ("micro-batch-tokens", wishes.micro_batch_tokens)):
        if value is not None and value < 1:
            raise RunFileError(f"--{name} {value} is impossible", fix="give 1 or more")


def pass_rates(given: str | None) -> PassRates | None:
    """One rate, or a Beta fitted to a file of counts. Raises `DataError`."""
    if given is None:
        return None
    path = Path(given)
    if not path.is_file():
        try:
            rate = float(given)
        except ValueError as error:
            raise DataError(
                f"--pass-rate {given} is neither a number nor a file", fix="give 0 to 1, or a file of JSON lines"
            ) from error
        return KnownRates((rate,))
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} isn't text in UTF-8", fix='write lines such as {"right": 3, "sampled": 8}') from error
    return Beta.fit([_counts(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()])


def _counts(line: str, where: str) -> tuple[int, int]:
    """Right and sampled of one line: whole numbers, and not more than a machine ever samples."""
    try:
        row = json.loads(line)
        right, sampled = row["right"], row["sampled"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where} is no pair of counts", fix='write {"right": 3, "sampled": 8}') from error
    if type(right) is not int or type(sampled) is not int or sampled > MOST_SAMPLED:
        raise DataError(f"{where} has right = {right!r}, sampled = {sampled!r}", fix="give whole numbers, no rates")
    return right, sampled
