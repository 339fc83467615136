"""What a run or an algorithm optimises, on what data and with which models, and what each of its settings does.

Everything is read off the objects that would run: the objective with its numbers, what the algorithm needs, the
docstrings of the settings, the paper in the docstring of the algorithm's module, its `differences` from that paper.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from groupwise.algorithms import ALGORITHMS
from groupwise.algorithms.contract import Algorithm
from groupwise.errors import RunFileError
from groupwise.run import Run, Stage
from groupwise.run_file import load_run, packaged_runs
from groupwise.settings import Settings

INDENT = "    "
TABLES = ("prompts", "sampling", "updates", "optimizer", "critic", "evaluation")
"""The tables of a stage that are explained beside its algorithm."""


def explain(source: str, overrides: Sequence[str] = (), width: int = 110) -> list[str]:
    """The lines for a run file, a packaged run or an algorithm's name, wrapped at `width` characters.

    `overrides` are `key.path=value` of the run, or `key=value` of the algorithm. Raises `RunFileError`.
    """
    if Path(source).is_file() or source in packaged_runs():
        return _explain_run(load_run(source, overrides).run, width)
    if source in ALGORITHMS:
        return _explain_algorithm(source, overrides, width)
    names = [*ALGORITHMS, *packaged_runs(), *(entry.name for entry in Path.cwd().glob("*.toml"))]
    near = difflib.get_close_matches(source, names, 1)
    raise RunFileError(
        f"there is no run file, packaged run or algorithm {source!r}",
        fix=f"did you mean {near[0]}?" if near else f"give a run file, or one of {', '.join(ALGORITHMS)}",
    )


def _explain_algorithm(name: str, overrides: Sequence[str], width: int) -> list[str]:
    """An algorithm in a run of defaults."""
    table = {"name": name}
    alone = {"model": "builtin:tiny-char", "task": "sums", "steps": 1, "algorithm": table}
    run = load_run(alone, [f"algorithm.{override}" for override in overrides]).run
    stage, algorithm = run.stages[0], run.stages[0].algorithm
    return [
        *_about(algorithm, width),
        *_section("Data, with the defaults of a run", _data(stage), width),
        *_section("Models in memory", _models(run, 0), width),
        *_section("Settings", [], width),
        *_settings(algorithm, "", width),
    ]


def _explain_run(run: Run, width: int) -> list[str]:
    lines: list[str] = []
    for index, stage in enumerate(run.stages):
        algorithm = stage.algorithm.with_budget(stage.sampling.max_tokens)
        reward = ", ".join(reward.name for reward in stage.rewards) or "the task's own"
        if lines:
            lines.append("")
        lines.append(f"Stage {run.stage_name(index)}: {stage.steps} optimiser steps")
        lines += _about(algorithm, width)
        task = [f"task {stage.task.name}" + (f"; reward: {reward}" if algorithm.needs.rewards else "")]
        lines += _section("Data", [*task, *_data(stage)], width)
        lines += _section("Models in memory", _models(run, index), width)
        lines += _section("Settings of [algorithm]", [], width)
        lines += _settings(algorithm, "", width)
        for table in TABLES:
            if table != "critic" or algorithm.needs.critic:
                lines += _section(f"Settings of [{table}]", [], width)
                lines += _settings(getattr(stage, table), "", width)
    return lines


def _about(algorithm: Algorithm, width: int) -> Iterator[str]:
    """The paper with its equations, the objective with this object's numbers, and how the two differ."""
    paper = inspect.getdoc(sys.modules[type(algorithm).__module__]) or ""
    yield f"{algorithm.name}: {_first_line(type(algorithm).__doc__)}"
    yield from _section("Published form", [], width)
    yield from textwrap.indent(paper, INDENT).splitlines()
    yield from _section("Objective, which is maximised, with these settings", [], width)
    yield from textwrap.indent(algorithm.objective(), INDENT).splitlines()
    yield from _section("How this differs from the published form", algorithm.differences, width)


def _data(stage: Stage) -> Iterator[str]:
    """Where groups come from, what scores must say, and how many updates each rollout feeds."""
    needs, updates = stage.algorithm.needs, stage.updates
    prompts, size = stage.prompts.per_step, stage.sampling.group_size
    drawn = f"{size} completions each, at temperature {stage.sampling.temperature:g}"
    if needs.source == "demonstrations":
        yield f"rows with a column `completion`, {prompts} per rollout step; no completion is sampled"
    elif needs.source == "pairs":
        yield f"rows with columns `chosen` and `rejected`, {prompts} pairs per rollout step; no completion is sampled"
    elif needs.source == "steps":
        yield "rows with columns `steps` (or `completion` and `step_ends`) and `labels`"
        yield f"{prompts} rows per rollout step; no completion is sampled"
    elif needs.sampling == "once":
        yield f"prompts with {drawn}, drawn once from the policy that the stage begins with, and recorded in samples/"
        yield f"{prompts} prompts per rollout step, out of those with a completion that is kept"
    else:
        yield f"{prompts} prompts per rollout step with {drawn}, drawn from the policy as it is at that step"
    if needs.dynamic_sampling is not None:
        rounds = needs.dynamic_sampling.max_rounds
        yield f"groups without signal are dropped and further prompts sampled, up to {rounds} rounds"
    if needs.rewards:
        asked = [
            word
            for word, wanted in (
                ("rewards of reasoning steps", needs.step_rewards),
                ("verdicts (`correct`)", needs.verdicts),
            )
            if wanted
        ]
        yield f"the reward scores each completion{' and must give ' if asked else ''}{' and '.join(asked)}"
    count = updates.per_rollout
    if count > 1:
        yield f"{updates.epochs} epochs x {updates.minibatches} minibatches = {count} optimiser steps per rollout"
        if needs.on_policy:
            yield "no ratio corrects for the steps after the first"
    elif needs.source == "prompts" and needs.sampling == "live" and needs.policy:
        yield "one optimiser step per rollout: the old policy is the current one, ratios are 1, nothing is clipped"
    if needs.until is not None:
        metric, value = needs.until
        yield f"the stage ends before its last step once {metric} is above {value:g}"


def _models(run: Run, index: int) -> Iterator[str]:
    """Which networks the trainer builds for a stage, and why; those it doesn't, and why not."""
    stage, lora = run.stages[index], run.model.lora
    needs = stage.algorithm.needs
    weights = "all weights" if lora is None else f"LoRA adapters of rank {lora.rank}"
    if needs.policy:
        yield f"policy: trained ({weights}), with the state of AdamW"
    elif needs.judges is not None:
        yield "policy: stands still, and only says how the model that judges begins"
    else:
        yield "policy: samples, and is not trained"
    if needs.reference:
        refresh = needs.reference_refresh
        moves = "" if refresh is None else f"; it moves to the policy every {refresh.every} steps"
        what = "trainable weights" if lora is None else "adapters (new ones are 0: the model without them)"
        fixed = refresh is None and (needs.source != "prompts" or needs.sampling == "once")
        if fixed:
            yield "no second model for the reference: its log-probs are taken once, as the stage begins"
        else:
            yield f"reference: a frozen copy of the policy's {what} as the stage begins{_because(stage)}{moves}"
    else:
        yield f"no reference{_why_no_reference(stage)}"
    if needs.critic and needs.judges is not None:
        yield f"the model that judges {needs.judges}, where other stages have a critic:"
    if needs.critic:
        before = index > 0 and run.stages[index - 1].algorithm.needs.critic
        start = "the critic of the stage before" if before else _critic_start(stage.critic.start)
        yield f"critic: {start}, trained with an AdamW of its own, learning rate {stage.critic.learning_rate:g}"
    else:
        yield "no critic" + (": advantages need no values" if needs.rewards else "")
    if needs.old_log_probs or (stage.updates.per_rollout > 1 and needs.policy):
        yield "the old policy is no network: its log-probs are kept with the tokens"
    if needs.rewards:
        yield "no reward model, unless a reward of the run loads one itself"


def _because(stage: Stage) -> str:
    beta = getattr(stage.algorithm, "beta", None)
    return "" if beta is None else f", because beta is {beta:g}"


def _why_no_reference(stage: Stage) -> str:
    return ": beta is 0" if getattr(stage.algorithm, "beta", None) == 0 else ": there is no KL term"


def _critic_start(start: str) -> str:
    words = {
        "policy": "a copy of the policy's layers with a linear head that starts at 0",
        "fresh": "the policy's architecture with random weights and a linear head",
    }
    return words.get(start, f"{start}, a classifier with one label")


def _settings(table: Any, prefix: str, width: int) -> Iterator[str]:
    """Each setting with its value, its default and what it does; those of tables inside under their dotted names."""
    for name, info in type(table).model_fields.items():
        value = getattr(table, name)
        default = info.get_default(call_default_factory=True)
        if name == "name":
            continue
        mark = "default" if value == default else f"default {_shown(default)}"
        inside = isinstance(value, Settings)
        yield f"{INDENT}{prefix}{name}{'' if inside else f' = {_shown(value)}'}   ({mark})"
        yield from _wrapped(info.description or "", INDENT * 2, width)
        if inside:
            yield from _settings(value, f"{prefix}{name}.", width)


def _shown(value: Any) -> str:
    """A value as a run file writes it."""
    if value is None:
        return "not set"
    if isinstance(value, Settings):
        inner = ", ".join(f"{key} = {_shown(item)}" for key, item in value if item is not None)
        return f"{{ {inner} }}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _section(title: str, lines: Iterable[str], width: int) -> Iterator[str]:
    """A heading, and a bullet for each line."""
    yield ""
    yield title
    for line in lines:
        yield from _wrapped(line, f"{INDENT}- ", width)


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    plain = " ".join(text.split())
    later = " " * len(indent)
    return textwrap.wrap(plain, width, initial_indent=indent, subsequent_indent=later, break_on_hyphens=False)


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""
