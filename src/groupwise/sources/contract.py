"""What a source is: where scored groups come from, the first choice of the unified paradigm.

`live` samples them from the policy and scores them; `demonstrations` wraps completions written by others. A source
yields the groups of one rollout step, and owns nothing but the way there: which prompts come next is decided by a
`Cursor`, so that a restart continues where the run stopped.

    groups = source.groups(prompts=8)          # the next eight prompts, each with its completions and scores
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from groupwise.types import Group


@dataclass(frozen=True, slots=True)
class Gathered:
    """The scored groups of one rollout step, and what it took to get them."""

    groups: Sequence[Group]
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall-clock seconds by phase: `rollout`, `reward`."""
    tokens_sampled: int = 0
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Groups that are recorded but not trained on: group id -> why."""
    rounds: int = 1
    """Rounds of sampling that it took."""
    note: str = ""
    """What a person should hear of it."""


class Refill(Protocol):
    """Whether a scored group is worth keeping, and how long to go on sampling for more; an algorithm's settings."""

    def refuses(self, group: Group) -> str | None:
        """None, or why the group gives no signal."""

    def decide(self, kept: int, wanted: int, rounds: int) -> Literal["sample", "train", "skip", "stop"]:
        """What to do with so many kept groups after so many rounds."""

    @property
    def surplus(self) -> Literal["discard", "carry"]:
        """What becomes of kept groups beyond those asked for."""


class Source(Protocol):
    """See the module's docstring."""

    def groups(self, prompts: int) -> Gathered:
        """The groups of the next `prompts` prompts."""

    def everything(self) -> Sequence[Group] | None:
        """All groups there will ever be, or None where they are sampled as training goes on."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold for this source to continue: JSON values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""
