"""Everything that can be checked before a model is loaded: rows, prompts, what is written, rewards of stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from transformers import PreTrainedTokenizerBase

from groupwise.errors import DataError, RewardError
from groupwise.models.classifiers import check_judge, check_start
from groupwise.rewards import AnyReward
from groupwise.rewards.base import RewardSettings
from groupwise.rewards.build import build_reward
from groupwise.rewards.combine import Combined
from groupwise.run import Run, Stage
from groupwise.tasks.contract import Row, Task
from groupwise.tasks.rendering import render_all
from groupwise.tasks.rows import checked_rows
from groupwise.training.written import COLUMNS, written_groups
from groupwise.types import Group, Prompt


@dataclass(frozen=True)
class Prepared:
    """A stage with its data, ready to train once there is a model."""

    settings: Stage
    prompts: Sequence[Prompt]
    written: Sequence[Group]
    """The written completions of each prompt; empty where the algorithm samples."""
    test_prompts: Sequence[Prompt]
    """What is sampled and scored in evaluations; empty where nothing scores, or no policy is trained."""
    test_written: Sequence[Group]
    """Written completions that nothing trains on, for the loss on them; empty where the test rows have none."""
    reward: Combined | None
    notes: Sequence[str]


def check_parts(run: Run, say: Callable[[str], None]) -> None:
    """Raise a `UserError` where the run's engine, a tracker or a critic can't be had; reads no weights."""
    run.engine.check()
    for tracker in run.trackers:
        tracker.check()
    for stage in run.stages:
        if stage.algorithm.needs.critic:
            check_start(stage.critic.start, run.model.name, say)
        if stage.algorithm.needs.judges is not None:
            check_judge(stage.algorithm.needs.judges, run.model.name, say)


def prepare(
    stage: Stage,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    say: Callable[[str], None],
    *,
    given: Task | None = None,
    functions: Sequence[Callable[..., Any]] = (),
) -> Prepared:
    """Read, render and check one stage's data.

    `say` is told what takes long. `given` rows and `functions` (rewards) given from Python stand in for the stage's
    own. Raises `DataError` and `RewardError`.
    """
    if stage.samples is not None and not Path(stage.samples).is_file():
        raise DataError(f"there is no file of samples {stage.samples!r}", fix="give samples/stage-N.parquet of a run")
    task: Task = stage.task if given is None else given
    rows = checked_rows(task.rows("train", seed), f"task {task.name}")
    test_rows = list(task.rows("test", seed))[: stage.evaluation.prompts]
    if test_rows:
        test_rows = list(checked_rows(test_rows, f"the test split of task {task.name}"))
    prompts, notes = _render(rows, tokenizer, stage, f"task {task.name}")
    test_prompts, _ = _render(test_rows, tokenizer, stage, "its test split") if test_rows else ([], [])
    needs, chat = stage.algorithm.needs, stage.prompts.chat
    written = written_groups(rows, prompts, tokenizer, chat, needs)
    test_written = []
    if all(row.get(column) is not None for row in test_rows for column in COLUMNS[needs.source]):
        test_written = written_groups(test_rows, test_prompts, tokenizer, chat, needs)
        test_written = [group for group in test_written if stage.algorithm.keep(group) is None]
    reward = reward_of(stage, task, functions) if needs.rewards or needs.policy else None
    if reward is not None:
        for line in reward.announced([*rows, *test_rows]):
            say(line)
        reward.check([*rows, *test_rows])
        notes = [*notes, *reward.notes]
    elif needs.rewards:
        raise RewardError(
            f"{stage.algorithm.name} needs a reward, and task {task.name} has none of its own",
            fix='name one in the run file, for instance [[rewards]] with name = "exact"',
        )
    else:
        if test_prompts and not test_written:
            lacking = (
                "no reward to evaluate with" if needs.policy else f"nothing written in the test rows ({needs.source})"
            )
            notes = [*notes, f"no evaluation: there is {lacking}"]
        test_prompts = []
    return Prepared(stage, prompts, written, test_prompts, test_written, reward, notes)


def _render(
    rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase, stage: Stage, where: str
) -> tuple[list[Prompt], list[str]]:
    settings = stage.prompts
    return render_all(rows, tokenizer, settings.chat, settings.max_tokens, settings.over_limit, where)


def reward_settings(stage: Stage, task: Task) -> list[RewardSettings]:
    """The stage's rewards, or the task's own; none where there are none."""
    own = task.reward()
    if stage.rewards or own is None:
        return list(stage.rewards)
    return [TypeAdapter(AnyReward).validate_python(own)]


def reward_of(stage: Stage, task: Task, functions: Sequence[Callable[..., Any]] = ()) -> Combined | None:
    """The rewards given from Python, or the stage's, or the task's own; None where there are none.

    Raises `RewardError`; no process is started yet.
    """
    settings = [] if functions and not stage.rewards else reward_settings(stage, task)
    if not settings and not functions:
        return None
    return build_reward(settings, base=Path.cwd(), functions=functions)
