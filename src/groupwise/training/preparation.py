"""Everything that can be checked before a model is loaded: rows, prompts, demonstrations and rewards of each stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from transformers import PreTrainedTokenizerBase

from groupwise.errors import DataError, RewardError
from groupwise.rewards import AnyReward
from groupwise.rewards.build import build_reward
from groupwise.rewards.combine import Combined
from groupwise.run import Stage
from groupwise.tasks.contract import Row, Task
from groupwise.tasks.rendering import demonstration_tokens, render_all
from groupwise.tasks.rows import checked_rows
from groupwise.types import Prompt


@dataclass(frozen=True)
class Prepared:
    """A stage with its data, ready to train once there is a model."""

    settings: Stage
    prompts: Sequence[Prompt]
    demonstrations: Sequence[Sequence[tuple[int, ...]]]
    """Token ids of the written completions of each prompt: one, or a chosen and a rejected one; empty where the
    algorithm samples."""
    test_prompts: Sequence[Prompt]
    reward: Combined | None
    notes: Sequence[str]


def prepare(
    stage: Stage,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    *,
    given: Task | None = None,
    functions: Sequence[Callable[..., Any]] = (),
) -> Prepared:
    """Read, render and check one stage's data.

    `given` rows and `functions` (rewards) given from Python stand in for the stage's own. Raises `DataError` and
    `RewardError`.
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
    demonstrations = _demonstrate(rows, prompts, tokenizer, stage)
    reward = _reward(stage, task, functions)
    if reward is not None:
        reward.check([*rows, *test_rows])
        notes = [*notes, *reward.notes]
    elif stage.algorithm.needs.rewards:
        raise RewardError(
            f"{stage.algorithm.name} needs a reward, and task {task.name} has none of its own",
            fix='name one in the run file, for instance [[rewards]] with name = "exact"',
        )
    elif test_prompts:
        notes = [*notes, "no evaluation: there is no reward to evaluate with"]
        test_prompts = []
    return Prepared(stage, prompts, demonstrations, test_prompts, reward, notes)


def _render(
    rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase, stage: Stage, where: str
) -> tuple[list[Prompt], list[str]]:
    settings = stage.prompts
    return render_all(rows, tokenizer, settings.chat, settings.max_tokens, settings.over_limit, where)


def _demonstrate(
    rows: Sequence[Row], prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerBase, stage: Stage
) -> list[list[tuple[int, ...]]]:
    """The written completions of each prompt, where the algorithm learns from them."""
    columns = {"prompts": [], "demonstrations": ["completion"], "pairs": ["chosen", "rejected"]}
    names = columns[stage.algorithm.needs.source]
    if not names:
        return []
    row_of = {row["id"]: row for row in rows}
    chat = stage.prompts.chat
    return [
        [demonstration_tokens(row_of[prompt.id], tokenizer, chat, column=name) for name in names] for prompt in prompts
    ]


def _reward(stage: Stage, task: Task, functions: Sequence[Callable[..., Any]]) -> Combined | None:
    """The rewards given from Python, or the stage's, or the task's own."""
    settings = list(stage.rewards)
    own = task.reward()
    if not settings and not functions and own is not None:
        settings = [TypeAdapter(AnyReward).validate_python(own)]
    if not settings and not functions:
        return None
    return build_reward(settings, base=Path.cwd(), functions=functions)
