"""Whether layers must be computed again in the backward pass: only where their activations wouldn't fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupwise.planning.activations import Packing, Precision
from groupwise.planning.memory import Workload, predict
from groupwise.planning.shape import Shape

MARGIN = 1.25
"""What must be free over what is predicted: for completions of unequal lengths, which are padded more than equal ones,
for the holes that allocators leave, and for what libraries hold."""


@dataclass(frozen=True)
class Demand:
    """What a stage asks of memory."""

    micro_batch_tokens: int
    prompt: int
    """Tokens of the longest prompt."""
    completion: int
    """Most tokens of a completion."""
    samples: int
    """Completions per prompt."""
    groups: int
    """Groups of one step."""
    whole_groups: bool = False
    """No group is split over micro-batches."""
    policy: bool = True
    reference: bool = False
    critic: bool = False

    def workload(self, shape: Shape, parameters: int, trained: int, precision: Precision) -> Workload:
        """The same of a model with these sizes."""
        packing = Packing.full(
            self.micro_batch_tokens,
            self.prompt,
            self.completion,
            self.samples,
            self.groups,
            whole=self.whole_groups,
            window=shape.window,
        )
        return Workload(shape, parameters, trained, precision, packing, self.policy, self.reference, self.critic)


@dataclass(frozen=True)
class Choice:
    """What was decided, and a sentence that says why."""

    checkpointing: bool
    sentence: str


def choose(works: Sequence[Workload], free: int) -> Choice:
    """Checkpointing for all stages or none: whether the largest update, with a margin, needs more than `free` bytes.

    `free` is taken before weights are read.
    """
    assert works, "a run trains something"
    plain, recomputed = (
        max(predict(work, checkpointing=flag).phase("update").total for work in works) for flag in (False, True)
    )
    room = f"{_size(free)} are free"
    margin = f"and {MARGIN - 1:.0%} of margin"
    if plain * MARGIN <= free:
        return Choice(False, f"gradient checkpointing off: the update needs {_size(plain)} {margin}, {room}")
    sentence = f"gradient checkpointing on: without it the update needs {_size(plain)} {margin}, {room}"
    if recomputed * MARGIN > free:
        sentence += f"; with it {_size(recomputed)}, which may not fit: lower optimizer.micro_batch_tokens"
    return Choice(True, sentence)


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
