"""Settings and credit of process supervision; the maths is in `groupwise.core.process_rewards`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from groupwise.algorithms.group_relative import GroupRelative
from groupwise.algorithms.parts import Reads
from groupwise.core.layout import Reduce, mask_completions, working_dtype
from groupwise.core.process_rewards import StepStatistics, process_advantages, scored_steps
from groupwise.errors import DataError
from groupwise.types import Batch


class ProcessSettings(GroupRelative):
    """How rewards of steps become advantages per token."""

    step_statistics: StepStatistics = "steps"
    """Process supervision: mean and std over all steps of the group, or over one mean per completion."""
    after_last_step: Literal["zero", "carry"] = "zero"
    """Process supervision: the advantage of tokens after the last step: 0, or that of the last step."""
    outcome_as_step: bool = False
    """Process supervision: count the completion's own reward as a step that ends at its last token."""

    def step_reads(self, reads: Reads) -> Reads:
        """Step rewards in place of rewards."""
        rest = reads.credit if self.outcome_as_step else reads.credit - {"rewards"}
        return Reads(rest | {"step_rewards", "step_ends"}, reads.loss)

    def step_credit(self, batch: Batch, reduce: Reduce) -> Batch:
        """Advantages per token; a completion of which no step was scored leaves the loss.

        Raises `DataError` where scored completions have no steps at all.
        """
        if not self.outcome_as_step:
            need_step_rewards(batch)
        steps = scored_steps(batch, outcome_as_step=self.outcome_as_step)
        scored = torch.zeros(len(batch.completion_spans), dtype=torch.bool, device=batch.rewards.device)
        scored[steps.owners] = True
        advantages, _ = process_advantages(
            batch,
            self.std,
            self.scale,
            statistics=self.step_statistics,
            outcome_as_step=self.outcome_as_step,
            after_last_step=self.after_last_step,
            tie_tol=self.tie_tol,
            reduce=reduce,
        )
        rewards = torch.where(scored & batch.rewards.isnan(), 0.0, batch.rewards)
        batch = replace(self.mask(replace(mask_completions(batch, scored), rewards=rewards)), rewards=batch.rewards)
        return replace(batch, advantages=advantages.to(working_dtype()))

    def describe_steps(self) -> list[str]:
        """The advantage with these settings, in plain text."""
        over = "all steps of the group" if self.step_statistics == "steps" else "the completions' mean step rewards"
        after = "0" if self.after_last_step == "zero" else "that of the last step"
        return [
            f"A_t = Σ over steps that end at or after t of (r − mean) / {self.std.formula()}   "
            f"({self.std.kind} std, over {over}); after the last step {after}"
        ]


def need_step_rewards(batch: Batch) -> None:
    """Raise `DataError` where no scored completion of a batch has rewards of steps."""
    scored = [steps for steps, value in zip(batch.step_rewards, batch.rewards.tolist(), strict=True) if value == value]
    if scored and all(steps is None for steps in scored):
        raise DataError(
            "process supervision needs rewards of steps, and the reward gives none",
            fix="return a Score with `step_rewards` and `step_ends`, or set supervision = 'outcome'",
        )
