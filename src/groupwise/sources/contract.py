"""What a source is: where scored groups come from, the first choice of the unified paradigm.

`live` samples them from the policy and scores them; `demonstrations` wraps completions written by others. A source
yields the groups of one rollout step, and owns nothing but the way there: which prompts come next is decided by a
`Cursor`, so that a restart continues where the run stopped.

    groups = source.groups(prompts=8)          # the next eight prompts, each with its completions and scores
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from groupwise.types import Group


@dataclass(frozen=True, slots=True)
class Gathered:
    """The scored groups of one rollout step, and what it took to get them."""

    groups: Sequence[Group]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall-clock seconds by phase: `rollout`, `reward`."""
    tokens_sampled: int = 0


class Source(Protocol):
    """See the module's docstring."""

    def groups(self, prompts: int) -> Gathered:
        """The groups of the next `prompts` prompts."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold for this source to continue: JSON values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""
