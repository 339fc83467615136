"""What is about to be optimised, said in full before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from groupwise.run import Run, Stage
from groupwise.tasks.rendering import first_prompt_preview
from groupwise.training.preparation import Prepared


def banner(run: Run, prepared: Sequence[Prepared]) -> list[str]:
    """The lines: per stage the objective with this run's numbers, its data, sampling and optimiser."""
    lines = []
    for index, (stage, data) in enumerate(zip(run.stages, prepared, strict=True)):
        lines.append(f"stage {run.stage_name(index)}: {stage.steps} steps of {stage.prompts.per_step} prompts")
        algorithm = stage.algorithm.with_budget(stage.sampling.max_tokens)
        lines += [f"    {line}" for line in algorithm.objective().splitlines()]
        lines += [f"  {line}" for line in _details(stage, data)]
    lines += first_prompt_preview(prepared[0].prompts).splitlines()
    return lines


def objectives(run: Run) -> list[str]:
    """What each stage maximises, in plain maths."""
    lines = []
    for index, stage in enumerate(run.stages):
        algorithm = stage.algorithm.with_budget(stage.sampling.max_tokens)
        lines += [f"stage {run.stage_name(index)}", *algorithm.objective().splitlines(), ""]
    return lines


def _details(stage: Stage, data: Prepared) -> list[str]:
    optimizer, sampling, evaluation = stage.optimizer, stage.sampling, stage.evaluation
    reward = "none" if data.reward is None else data.reward.name
    lines = [
        f"task {stage.task.name}: {len(data.prompts)} prompts to train on, {len(data.test_prompts)} to evaluate on; "
        f"reward {reward}"
    ]
    if stage.algorithm.needs.source == "prompts":
        lines.append(
            f"sampling: {sampling.group_size} completions per prompt, temperature {sampling.temperature:g}, "
            f"at most {sampling.max_tokens} tokens"
        )
    lines.append(
        f"AdamW: lr {optimizer.learning_rate:g} {optimizer.schedule} after {optimizer.warmup_steps} warm-up steps, "
        f"betas {optimizer.betas[0]:g} {optimizer.betas[1]:g}, weight decay {optimizer.weight_decay:g}, "
        f"gradient norm clipped at {optimizer.max_grad_norm:g}; {_updates(stage)}"
    )
    if stage.algorithm.needs.on_policy and stage.updates.per_rollout > 1:
        lines.append(
            f"WARNING: {stage.algorithm.name} has no ratio that corrects for updates after a rollout's first; "
            "set updates.epochs and updates.minibatches to 1"
        )
    if stage.algorithm.needs.critic:
        lines.append(
            f"critic: AdamW of its own with lr {stage.critic.learning_rate:g}; starts from {stage.critic.start!r}, "
            "or is the one that the stage before trained"
        )
    if data.test_written:
        lines.append(f"held out: {len(data.test_written)} written groups, on which the loss is taken at evaluations")
    if data.test_prompts:
        when = f"every {evaluation.every} steps" if evaluation.every else "before and after each stage"
        how = "greedy" if evaluation.temperature == 0 else f"temperature {evaluation.temperature:g}"
        lines.append(f"evaluation: {when}, {len(data.test_prompts)} prompts x {evaluation.samples}, {how}")
    return lines


def _updates(stage: Stage) -> str:
    """How many optimiser steps a rollout feeds."""
    updates = stage.updates
    if updates.per_rollout == 1:
        return "one update per rollout"
    return (
        f"{updates.per_rollout} updates per rollout, {updates.epochs} epochs of {updates.minibatches} minibatches "
        f"of {updates.split}"
    )
