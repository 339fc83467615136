"""Training from Python or the command line: check everything, load, train, sum up.

import groupwise

def short(record):
    return len(record.text.split()) <= 5

result = groupwise.train(
    {"model": "builtin:smollm2-135m-instruct", "algorithm": "grpo", "steps": 20},
    prompts=[{"messages": [{"role": "user", "content": "Name a colour."}]}],
    rewards=[short],
)
print(result.folder, result.summary)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from groupwise.alarms import Finding
from groupwise.errors import RunFolderError
from groupwise.models.loading import load_model, load_tokenizer
from groupwise.models.policy import Policy
from groupwise.report.page import write_report
from groupwise.run import Run
from groupwise.run_file import LoadedRun, differences, load_run, to_toml
from groupwise.tasks import InMemory
from groupwise.tasks.contract import Row
from groupwise.telemetry import ledger, metrics
from groupwise.telemetry.display import ConsoleDisplay, Display
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.summary import Summary, summarise
from groupwise.training import checkpoint, environment
from groupwise.training.banner import banner, objectives
from groupwise.training.demands import demands
from groupwise.training.planned import Expectation
from groupwise.training.preparation import Prepared, check_parts, prepare
from groupwise.training.progress import Progress
from groupwise.training.trainer import Trainer

RewardFunction = Callable[..., Any]


@dataclass(frozen=True)
class Result:
    """How training ended."""

    folder: Path
    finished: bool
    """False where it was interrupted; resume it with `groupwise train --resume FOLDER`."""
    steps: int
    summary: Summary | None
    interrupted_by: str | None = None
    """The signal."""
    stopped_by: Finding | None = None
    """What an alarm of `alarms.stop` found."""
    step_before_alarm: int | None = None
    """The newest checkpoint that is left from before that began."""


def train(
    run: Run | str | Path | Mapping[str, Any],
    *,
    rewards: Sequence[RewardFunction] = (),
    prompts: Iterable[Row] | None = None,
    test_prompts: Iterable[Row] | None = None,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    display: Display | None = None,
) -> Result:
    """Train a run: a run file, the name of a packaged run, a mapping in a run file's form, or a `Run`.

    `rewards` (functions) and `prompts` (rows) given here stand in for those of the run. `overrides` are
    `key.path=value` as on the command line. Raises a `UserError` before a model is loaded where something is wrong.
    """
    with _display(display) as shown:
        if prompts is not None and isinstance(run, Mapping):
            run = {"task": "rows", **run}
        loaded = LoadedRun(run, "run") if isinstance(run, Run) else load_run(run, overrides)
        folder = RunFolder.check_free(out or default_folder(loaded.name))
        task = None if prompts is None else InMemory(prompts, test_prompts)
        with _prepared(loaded.run, shown, loaded.notes, task, rewards) as prepared:
            expected = Expectation(loaded.run, prepared, shown.say)
            model, seed = loaded.run.model, loaded.run.seed
            policy = Policy.of(load_model(model, seed=seed, say=shown.say, demands=demands(prepared)))
            expected.loaded(policy)
            folder.make(to_toml(loaded.run), environment.describe(policy), "\n".join(objectives(loaded.run)))
            return _run(Trainer(loaded.run, prepared, policy, folder, shown), folder, expected)


def resume(
    path: str | Path,
    *,
    run: str | Path | None = None,
    rewards: Sequence[RewardFunction] = (),
    prompts: Iterable[Row] | None = None,
    test_prompts: Iterable[Row] | None = None,
    display: Display | None = None,
) -> Result:
    """Continue the run in a folder from its newest complete checkpoint.

    A `run` given too is compared with the one in the folder, and must say the same. Rewards and prompts that were
    given from Python must be given again.
    """
    with _display(display) as shown:
        folder = RunFolder.existing(path)
        stored = load_run(tomllib.loads(folder.run_file.read_text("utf-8")))
        if run is not None:
            _must_equal(stored.run, load_run(run).run, path)
        recorded = json.loads(folder.environment.read_text("utf-8"))
        environment.use_threads(recorded, shown.say)
        newest = checkpoint.newest(folder.checkpoints, shown.say)
        step, weights = newest or (0, None)
        _forget_after(folder, step)
        shown.say(f"resumed from step {step}")
        if weights is not None and read_progress(weights).stage == len(stored.run.stages):
            shown.say(f"nothing is left to do: all {step} steps are done")
            return Result(folder.path, True, step, summarise(folder))
        task = None if prompts is None else InMemory(prompts, test_prompts)
        with _prepared(stored.run, shown, (), task, rewards) as prepared:
            expected = Expectation(stored.run, prepared, shown.say)
            begun = stage_start(stored.run, folder, weights)
            model = environment.as_before(stored.run.model, recorded)
            policy = Policy.of(load_model(model, seed=stored.run.seed, weights=begun, say=shown.say))
            expected.loaded(policy)
            environment.compare(recorded, environment.describe(policy), shown.say)
            return _run(Trainer(stored.run, prepared, policy, folder, shown, weights), folder, expected)


def read_progress(weights: Path) -> Progress:
    """How far the run was when this checkpoint was written."""
    return Progress.from_json(json.loads((weights / "trainer.json").read_text("utf-8"))["progress"])


def default_folder(name: str) -> Path:
    """`runs/NAME-DATE-TIME` in the current folder, with a number behind it where that second has a run already."""
    plain = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    numbered = (plain.with_name(f"{plain.name}-{number}") for number in count(2))
    return next(path for path in chain([plain], numbered) if not path.exists())


def stage_start(run: Run, folder: RunFolder, weights: Path | None) -> Path | None:
    """The checkpoint whose weights the stage in hand began with; None where it began with the model itself.

    Raises `RunFolderError` where it is gone and a reference must be made of it.
    """
    if weights is None:
        return None
    progress = read_progress(weights)
    if progress.stage_step == 0 or not run.stages[progress.stage].algorithm.needs.reference:
        return weights
    if progress.stage == 0:
        return None
    begun = folder.checkpoints / f"step-{progress.ends[-1]}"
    if (fault := checkpoint.damage(begun)) is not None:
        raise RunFolderError(
            f"the reference of this stage is the policy it began with, and {begun} can't be used: {fault}",
            fix="put that checkpoint back, or start a new run",
        )
    return begun


@contextmanager
def _display(given: Display | None) -> Iterator[Display]:
    """The display given, or one on the console for as long as the work lasts."""
    if given is not None:
        yield given
    else:
        with ConsoleDisplay() as console:
            yield console


@contextmanager
def _prepared(
    run: Run, display: Display, notes: Sequence[str], task: InMemory | None, functions: Sequence[RewardFunction]
) -> Iterator[list[Prepared]]:
    """Every stage's data and rewards, checked; reward workers end with the block."""
    tokenizer = load_tokenizer(run.model, display.say)
    check_parts(run, display.say)
    prepared: list[Prepared] = []
    try:
        for stage in run.stages:
            prepared.append(prepare(stage, tokenizer, run.seed, display.say, given=task, functions=functions))
        for line in [*notes, *(note for stage in prepared for note in stage.notes)]:
            display.say(line)
        for line in banner(run, prepared):
            display.say(line)
        yield prepared
    finally:
        for ready in prepared:
            if ready.reward is not None:
                ready.reward.close()


def _run(trainer: Trainer, folder: RunFolder, expected: Expectation) -> Result:
    begun = trainer.progress.step
    finished = trainer.train()
    expected.end([row for row in metrics.read(folder.metrics) if row["step"] > begun])
    _write_page(folder, trainer.display)
    interrupted = None if trainer.interrupts.signal is None else trainer.interrupts.signal.name
    step, before = trainer.progress.step, trainer.step_before_alarm()
    return Result(folder.path, finished, step, summarise(folder), interrupted, trainer.recorder.stopped_by, before)


def _write_page(folder: RunFolder, display: Display) -> None:
    """The report of the run as it is. The run is worth more than its page: whatever is wrong with that is only said."""
    try:
        display.say(f"report: {write_report([folder.path])}")
    except Exception as error:
        display.say(f"no report was written ({type(error).__name__}: {error}); try groupwise report {folder.path}")


def _forget_after(folder: RunFolder, step: int) -> None:
    """Drop what was recorded after the checkpoint: it is about to be done again."""
    metrics.drop_after(folder.metrics, step)
    if folder.alarms.exists():
        metrics.drop_after(folder.alarms, step)
    ledger.drop_after(folder.rollouts, step)
    ledger.drop_after(folder.evaluations, step)


def _must_equal(stored: Run, given: Run, path: str | Path) -> None:
    changed = differences(stored, given)
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise RunFolderError(
            f"the run file is not the one of {path}: {'; '.join(changed[:3])}{more}",
            fix="resume without a run file, or start a new run with --out",
        )
