"""From a run folder to a plain model folder: of the policy, or of the reward model that a stage trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from groupwise.errors import RunFolderError
from groupwise.models.classifiers import export_judge
from groupwise.models.critic import Critic
from groupwise.models.loading import load_model
from groupwise.models.saving import export
from groupwise.run_file import load_run
from groupwise.telemetry import metrics
from groupwise.telemetry.run_folder import RunFolder
from groupwise.training import checkpoint
from groupwise.training.progress import Progress


def export_run(run_folder: Path, out: Path, step: str = "last") -> list[str]:
    """Export a checkpoint (`last`, `best` or a step's number); returns what there is to say. Raises a `UserError`."""
    folder = RunFolder.existing(run_folder)
    lines: list[str] = []
    number, path = chosen_checkpoint(folder, step, lines.append)
    run = load_run(folder.run_file).run
    loaded = load_model(run.model, seed=run.seed, weights=path, say=lines.append)
    stage = _stage_of(path, number)
    judges = run.stages[stage].algorithm.needs.judges
    if judges is None:
        lines += export(loaded, out)
        what, loader = "step", "AutoModelForCausalLM"
    else:
        first = stage
        while first and run.stages[first - 1].algorithm.needs.critic:
            first -= 1  # the stages before it trained the same critic
        critic = Critic.build(run.stages[first].critic, loaded, run.seed)
        critic.restore(path / "critic.safetensors")
        lines += export_judge(critic, loaded, judges, out)
        what, loader = {
            "completions": ("the reward model of step", "AutoModelForSequenceClassification"),
            "steps": ("the process reward model of step", "AutoModelForTokenClassification"),
        }[judges]
    return [*lines, f"exported {what} {number} to {out}: it loads with {loader}.from_pretrained"]


def _stage_of(path: Path, step: int) -> int:
    """Index of the stage that trained the checkpoint of this step."""
    progress = Progress.from_json(json.loads((path / "trainer.json").read_text("utf-8"))["progress"])
    return sum(end < step for end in progress.ends)


def chosen_checkpoint(folder: RunFolder, step: str, say: Callable[[str], None]) -> tuple[int, Path]:
    """Step and folder of the checkpoint asked for (`last`, `best` or a step's number), checked.

    Raises `RunFolderError`; says which damaged ones are passed over.
    """
    here = sorted(number for number, _ in checkpoint.found(folder.checkpoints))
    there_are = f"checkpoints are there for steps {', '.join(map(str, here)) or '(none)'}"
    if step == "last":
        newest = checkpoint.newest(folder.checkpoints, say)
        if newest is None:
            raise RunFolderError(
                f"{folder.path} has no complete checkpoint", fix=f"resume it with --resume {folder.path}"
            )
        return newest
    if step == "best":
        best = metrics.best_step(metrics.read(folder.metrics))
        if best is None:
            raise RunFolderError(
                f"{folder.path} has no evaluation after training began", fix=f"give a step: {there_are}"
            )
        number = best
    elif step.isdigit():
        number = int(step)
    else:
        raise RunFolderError(f"--step {step!r} is not a step", fix="use a number, best or last")
    path = folder.checkpoints / f"step-{number}"
    if number not in here:
        raise RunFolderError(f"{folder.path} has no checkpoint of step {number}", fix=f"use another one: {there_are}")
    if (fault := checkpoint.damage(path)) is not None:
        raise RunFolderError(f"{path} can't be used: {fault}", fix=f"use another one: {there_are}")
    return number, path
