"""Groups of completions that were written by somebody else: one demonstration (SFT), with labels of its steps perhaps,
or a chosen and a rejected one (DPO, reward models)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.types import Group


class Demonstrations:
    """Walks over groups that are all known, one per prompt of the cursor; an id gets the number of the visit."""

    def __init__(self, written: Sequence[Group], cursor: Cursor) -> None:
        self.written, self.cursor = written, cursor

    def groups(self, prompts: int) -> Gathered:
        return Gathered([self._group(index, visit) for index, visit in self.cursor.take(prompts)])

    def everything(self) -> Sequence[Group]:
        """Each of them once."""
        return [self._group(index, 0) for index in range(len(self.written))]

    def _group(self, index: int, visit: int) -> Group:
        return replace(self.written[index], id=f"{self.written[index].id}#{visit}")

    def state(self) -> dict[str, Any]:
        return self.cursor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.cursor.restore(state)
