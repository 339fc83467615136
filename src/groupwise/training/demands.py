"""What the stages of a run ask of memory: the longest prompts and completions, and which networks stand beside."""

from __future__ import annotations

from collections.abc import Sequence

from groupwise.planning.checkpointing import Demand
from groupwise.training.preparation import Prepared


def demands(prepared: Sequence[Prepared]) -> list[Demand]:
    """One per stage."""
    return [_demand(stage) for stage in prepared]


def _demand(prepared: Prepared) -> Demand:
    settings = prepared.settings
    needs = settings.algorithm.needs
    completion, samples = settings.sampling.max_tokens, settings.sampling.group_size
    if prepared.written:
        completion = max(len(item.token_ids) for group in prepared.written for item in group.completions)
        samples = max(len(group.completions) for group in prepared.written)
    return Demand(
        micro_batch_tokens=settings.optimizer.micro_batch_tokens,
        prompt=max(len(prompt.token_ids) for prompt in prepared.prompts),
        completion=completion,
        samples=samples,
        groups=settings.prompts.per_step,
        whole_groups=needs.couples_groups,
        policy=needs.policy,
        reference=needs.reference,
        critic=needs.critic,
    )
