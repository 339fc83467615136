"""A run: one typed tree of settings, strict and printable; `groupwise.run_file` reads and writes it as TOML.

    seed = 0
    steps = 40
    model = "builtin:smollm2-135m-instruct"     # a word stands for a table with that name
    algorithm = "grpo"
    task = "instructions"

    [sampling]
    group_size = 8

A run may have several stages. Each is the run file with the stage's keys laid over it:

    [[stages]]
    algorithm = "sft"
    steps = 35

    [[stages]]
    algorithm = "grpo"
    steps = 60
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from groupwise.alarms.settings import AlarmSettings
from groupwise.algorithms import AnyAlgorithm
from groupwise.engines import AnyEngine, TorchEngineSettings
from groupwise.models.settings import CriticSettings, ModelSettings
from groupwise.rewards import AnyReward
from groupwise.settings import Settings
from groupwise.tasks import AnyTask
from groupwise.tasks.rendering import ChatSettings
from groupwise.telemetry.trackers import AnyTracker


class PromptSettings(Settings):
    """How prompts are taken from the task and rendered."""

    per_step: int = Field(default=8, ge=1)
    """Prompts of one step: one group each."""
    shuffle: bool = True
    """A new keyed order every epoch; false keeps the task's order."""
    max_tokens: int = Field(default=1024, ge=1)
    """Longest rendered prompt."""
    over_limit: Literal["error", "drop"] = "error"
    """What to do with rows whose prompt is longer."""
    chat: ChatSettings = ChatSettings()
    """How chats become text."""


class SamplingSettings(Settings):
    """How completions are drawn while training. The full distribution at this temperature, never a truncated one."""

    group_size: int = Field(default=8, ge=1)
    """Completions per prompt."""
    temperature: float = Field(default=1.0, gt=0)
    """Log-probs are those of log-softmax(logits / temperature), in sampling and in training alike."""
    max_tokens: int = Field(default=256, ge=1)
    """Longest completion, stop token included."""


class OptimizerSettings(Settings):
    """AdamW, its schedule, and how one optimiser step is cut to fit memory."""

    learning_rate: float = Field(default=1e-6, gt=0)
    """1e-6 suits full fine-tuning of models with billions of parameters; small ones and LoRA take 10 to 100x."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """After warm-up: constant, or falling, to reach zero one step after the stage's last."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of linear warm-up: Adam's first steps move each weight by about the learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of Adam's running means of the gradient and of its square."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the square root that Adam divides by."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled; on matrices only."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """A gradient with a larger norm is scaled down to this one."""
    micro_batch_tokens: int = Field(default=4096, ge=1)
    """Most tokens in memory for one backward pass; changes memory, not the gradient. A larger group is computed in
    parts that share its prompt."""
    max_bad_steps: int = Field(default=5, ge=1)
    """Steps in a row without a usable update (non-finite numbers, nothing scored) after which the run stops."""


class UpdatesSettings(Settings):
    """How many optimiser steps one rollout feeds. One, the default, needs no old log-probs and never clips."""

    epochs: int = Field(default=1, ge=1)
    """Passes over the rollout's completions."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of one pass."""
    split: Literal["groups", "completions"] = "groups"
    """What minibatches are made of: whole groups, or single completions as in DAPO's paper."""

    @property
    def per_rollout(self) -> int:
        """Optimiser steps of one rollout."""
        return self.epochs * self.minibatches


class EvaluationSettings(Settings):
    """Evaluation on the task's test split, with its own sampling: before training, while it goes on, and after it."""

    every: int = Field(default=0, ge=0)
    """Steps between evaluations; 0: only before and after each stage."""
    prompts: int = Field(default=64, ge=0)
    """Test prompts, the first ones of the split; 0: no evaluation."""
    samples: int = Field(default=1, ge=1)
    """Completions per prompt."""
    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    max_tokens: int | None = None
    """Longest completion; as in training when not given."""


class CheckpointSettings(Settings):
    """When to save and what to keep. The end of a stage, of the run, and an interruption always save."""

    every: int = Field(default=0, ge=0)
    """Steps between checkpoints; 0: only at the ends."""
    keep: int = Field(default=2, ge=1)
    """Newest checkpoints kept, beside the ends of stages and the best evaluation's."""


class LedgerSettings(Settings):
    """How much is kept of what was sampled."""

    max_mb: int = Field(default=2000, ge=0)
    """Megabytes (10^6 bytes) that the files in `rollouts/` may take; above that the oldest are dropped. The newest
    always stays, so 0 keeps one step."""


class Stage(Settings):
    """One stage: an algorithm on a task for a number of steps."""

    steps: int = Field(ge=1)
    """Optimiser steps of the stage; a rollout feeds as many as `updates` says."""
    max_tokens_sampled: int | None = Field(default=None, ge=1)
    """End the stage before its last step, with the rollout that brings the tokens it sampled to this number: algorithms
    that take different numbers of samples per step can so be compared on one budget."""
    algorithm: AnyAlgorithm
    """What turns scores into a loss."""
    task: AnyTask
    """Where the prompts come from."""
    samples: str | None = None
    """For algorithms that sample once: train on this file of samples, `samples/stage-N.parquet` of another run."""
    rewards: tuple[AnyReward, ...] = ()
    """What scores completions; empty: the task's own reward."""
    prompts: PromptSettings = PromptSettings()
    sampling: SamplingSettings = SamplingSettings()
    updates: UpdatesSettings = UpdatesSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    critic: CriticSettings = CriticSettings()
    """The critic, for algorithms that need one."""
    evaluation: EvaluationSettings = EvaluationSettings()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        least, size = self.algorithm.needs.min_group_size, self.sampling.group_size
        if self.algorithm.needs.source == "prompts" and size < least:
            raise ValueError(
                f"sampling.group_size = {size} gives {self.algorithm.name} no group to compare within; "
                f"use {least} or more (8 is usual)"
            )
        if self.samples is not None and self.algorithm.needs.sampling != "once":
            raise ValueError(f"samples = {self.samples!r} has no effect on {self.algorithm.name}; leave it out")
        if self.steps % self.updates.per_rollout:
            raise ValueError(
                f"steps = {self.steps} is no multiple of the {self.updates.per_rollout} optimiser steps that a rollout "
                "feeds (updates.epochs x updates.minibatches); make it one"
            )
        if self.updates.minibatches > self.prompts.per_step and self.updates.split == "groups":
            raise ValueError(
                f"updates.minibatches = {self.updates.minibatches} is more than the {self.prompts.per_step} groups of "
                'a rollout; raise prompts.per_step, or set updates.split = "completions"'
            )
        return self


class Run(Settings):
    """A whole run: what the run file says, defaults filled in."""

    seed: int = 0
    """Every random draw depends on it, and on nothing else that changes between machines or restarts."""
    model: ModelSettings
    engine: AnyEngine = TorchEngineSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    ledger: LedgerSettings = LedgerSettings()
    alarms: AlarmSettings = AlarmSettings()
    trackers: tuple[AnyTracker, ...] = ()
    """Where else the numbers of the run are shown; none of them can stop it."""
    stages: tuple[Stage, ...] = Field(min_length=1)

    def stage_name(self, index: int) -> str:
        """`INDEX-ALGORITHM`, as metrics name it."""
        return f"{index}-{self.stages[index].algorithm.name}"

    def total_steps(self) -> int:
        """Optimiser steps of all stages."""
        return sum(stage.steps for stage in self.stages)
