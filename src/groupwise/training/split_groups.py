"""Micro-batches in order; parts of a group that is larger than one share its prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from groupwise.models.hidden import SharedPrompt
from groupwise.packing import micro_batches, take
from groupwise.types import Batch


class Part(NamedTuple):
    """One micro-batch."""

    completions: list[int]
    """Which of the batch's."""
    batch: Batch
    """These with their prompts."""
    prompt: SharedPrompt | None
    """What the parts of one group have in common; None where the micro-batch holds whole groups."""


def parts(batch: Batch, completions: Sequence[int], max_tokens: int, *, whole_groups: bool = False) -> Iterator[Part]:
    """The micro-batches of some completions.

    Use up one, its backward pass included, before asking for the next: after the last part of a group follows the
    backward pass of its prompt.
    """
    group_of = batch.group_index.tolist()
    cut = micro_batches(batch, completions, max_tokens, whole_groups=whole_groups)
    for _, run in groupby(cut, key=lambda chosen: group_of[chosen[0]]):  # a split group's parts hold nothing else
        together = list(run)
        prompt = SharedPrompt() if len(together) > 1 else None
        for chosen in together:
            yield Part(chosen, take(batch, chosen), prompt)
        if prompt is not None:
            prompt.backward()
