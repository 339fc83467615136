"""What to evaluate, and on what: a model from one place, test prompts and rewards from a run or a task.

SOURCE is a run folder (one of its checkpoints), a run file or packaged run (its model as the run begins), or a model by
its folder, hub name or `builtin:NAME`. The test prompts are those of the last stage with rewards of SOURCE's own run;
`task` stands in for that: a run file, a run folder, or a task's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupwise.errors import DataError, RunFileError
from groupwise.models.settings import ModelSettings
from groupwise.run import Run, Stage
from groupwise.run_file import load_run, packaged_runs
from groupwise.tasks import TASKS
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training.exporting import chosen_checkpoint
from groupwise.training.preparation import reward_settings


@dataclass(frozen=True)
class Target:
    """A model, and the run whose last stage with rewards says what it is asked."""

    label: str
    """What tables call it."""
    run: Run
    """Its model is the one evaluated."""
    weights: Path | None
    """A checkpoint's folder; None: the model itself."""
    step: int = 0
    """Of the checkpoint."""

    @property
    def stage(self) -> Stage:
        """The last one that scores completions. Raises `RunFileError` where none does."""
        scored = [stage for stage in self.run.stages if reward_settings(stage, stage.task)]
        if not scored:
            raise RunFileError("no stage of this run has a reward to evaluate with", fix="add a [[rewards]] table")
        return scored[-1]

    def with_model_of(self, other: Target) -> Target:
        """The same questions, asked of the other one's model."""
        return Target(other.label, self.run.model_copy(update={"model": other.run.model}), other.weights, other.step)


def find_target(
    source: str, *, task: str | None, step: str, overrides: Sequence[str], say: Callable[[str], None]
) -> Target:
    """Read what SOURCE and `task` name; `step` (`last`, `best` or a number) chooses a checkpoint of a run folder.

    `overrides` are laid over the run that the test prompts come from. Raises a `UserError`.
    """
    if is_run(source):
        own = load_run(_run_file(source), [item for item in overrides if item.startswith("model.")]).run
        label, weights, number = source, None, 0
        if Path(source).is_dir():
            number, weights = chosen_checkpoint(RunFolder.existing(source), step, say)
            label = f"{Path(source).name} step {number}"
        asked = load_run(_run_file(source), overrides).run if task is None else _asking(task, source, overrides)
        return Target(label, asked.model_copy(update={"model": own.model}), weights, number)
    if task is None:
        raise RunFileError(
            f"{source!r} is no run, so nothing says what to ask the model",
            fix="add --task with a run file, a run folder or a task's name",
        )
    asked = _asking(task, source, overrides)
    model: ModelSettings = asked.model.model_copy(update={"name": source, "lora": None})
    return Target(source, asked.model_copy(update={"model": model}), None)


def is_run(source: str) -> bool:
    """Whether this names a run folder, a run file or a packaged run; a file that ends in .toml is meant to be one."""
    path = Path(source)
    return source.endswith(".toml") or (path / "run.toml").is_file() or path.is_file() or source in packaged_runs()


def _run_file(source: str) -> str | Path:
    return RunFolder.existing(source).run_file if Path(source).is_dir() else source


def _asking(task: str, model: str, overrides: Sequence[str]) -> Run:
    """The run whose test prompts are asked: that of a run file or folder, or one made of a task's name."""
    if is_run(task):
        return load_run(_run_file(task), overrides).run
    if task not in TASKS:
        near = difflib.get_close_matches(task, [*TASKS, *packaged_runs()], 1)
        hint = f"did you mean {near[0]}?" if near else "give a run file, a run folder, or a task's name"
        raise DataError(f"there is no task {task!r}", fix=f"{hint} (tasks: {', '.join(TASKS)})")
    return load_run({"model": model, "algorithm": "grpo", "steps": 1, "task": task}, overrides).run
