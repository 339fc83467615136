"""How far a run is: what a checkpoint must know beside weights, optimisers and data cursor."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Progress:
    """Counters of a run."""

    step: int = 0
    """Optimiser steps tried, over all stages."""
    stage: int = 0
    """0-based index of the stage in hand; the number of stages when the run is done."""
    stage_step: int = 0
    """Steps done in this stage."""
    stage_tokens: int = 0
    """Tokens sampled to train on in this stage."""
    updates: int = 0
    """Steps that changed the weights: the version of the policy."""
    no_signal: int = 0
    """Steps in which nothing had a gradient."""
    skipped: int = 0
    """Steps skipped for numbers that weren't finite."""
    bad_in_a_row: int = 0
    """Steps since the last one that went as it should."""
    ends: list[int] = field(default_factory=list)
    """The steps at which the stages that are done ended."""

    def end_stage(self) -> None:
        """Go on to the next stage."""
        self.ends.append(self.step)
        self.stage, self.stage_step, self.stage_tokens = self.stage + 1, 0, 0

    def to_json(self) -> dict[str, Any]:
        """The counters as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Progress:
        """The counters of a checkpoint."""
        return cls(**state)
