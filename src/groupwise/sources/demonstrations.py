"""Groups of one completion each, written by somebody else: the source of SFT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.types import Completion, Group, Prompt, Segment


class Demonstrations:
    """Prompts with the token ids of their demonstrated completions, stop token included."""

    def __init__(self, prompts: Sequence[Prompt], completions: Sequence[tuple[int, ...]], cursor: Cursor) -> None:
        assert len(prompts) == len(completions)
        self.prompts, self.completions, self.cursor = prompts, completions, cursor

    def groups(self, prompts: int) -> Gathered:
        groups = []
        for index, visit in self.cursor.take(prompts):
            prompt = self.prompts[index]
            completion = Completion((Segment(self.completions[index], None),), "stop")
            groups.append(Group(f"{prompt.id}#{visit}", prompt, (completion,), (None,)))
        return Gathered(groups)

    def state(self) -> dict[str, Any]:
        return self.cursor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.cursor.restore(state)
