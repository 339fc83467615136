"""How far a run is: what a checkpoint must know beside weights, optimiser and data cursor."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Progress:
    """Counters of a run."""

    step: int = 0
    """Optimiser steps tried, over all stages."""
    stage: int = 0
    stage_step: int = 0
    """Steps done in this stage."""
    updates: int = 0
    """Steps that changed the weights: the version of the policy."""
    no_signal: int = 0
    """Steps in which nothing had a gradient."""
    skipped: int = 0
    """Steps skipped for numbers that weren't finite."""
    bad_in_a_row: int = 0
    """Steps since the last one that went as it should."""

    def to_json(self) -> dict[str, Any]:
        """The counters by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Progress:
        """The progress that `to_json` wrote."""
        return cls(**state)
