"""Groups of completions that were written by somebody else: one demonstration (SFT), or a chosen and a rejected one
(DPO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.types import Completion, Group, Prompt, Segment


class Demonstrations:
    """Prompts with the token ids of their completions, stop tokens included."""

    def __init__(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[tuple[int, ...]]], cursor: Cursor
    ) -> None:
        assert len(prompts) == len(completions)
        self.prompts, self.completions, self.cursor = prompts, completions, cursor

    def groups(self, prompts: int) -> Gathered:
        return Gathered([self._group(index, visit) for index, visit in self.cursor.take(prompts)])

    def everything(self) -> Sequence[Group]:
        """One group for each prompt."""
        return [self._group(index, 0) for index in range(len(self.prompts))]

    def _group(self, index: int, visit: int) -> Group:
        prompt = self.prompts[index]
        written = tuple(Completion((Segment(tokens, None),), "stop") for tokens in self.completions[index])
        return Group(f"{prompt.id}#{visit}", prompt, written, (None,) * len(written))

    def state(self) -> dict[str, Any]:
        return self.cursor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.cursor.restore(state)
