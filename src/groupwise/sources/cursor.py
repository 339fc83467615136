"""Which prompts come next: a position in a keyed shuffle, so that a restart continues and never repeats or skips."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

from groupwise.errors import DataError


class Cursor:
    """Walks over prompts epoch after epoch; each epoch has its own order, keyed by seed, stage and epoch.

    When a step asks for more prompts than an epoch has left, it goes on in the next epoch: nothing is dropped, and a
    prompt that comes twice has a new visit number, so its completions are drawn anew.
    """

    def __init__(self, prompt_ids: Sequence[str], *, seed: int, stage: int, shuffle: bool) -> None:
        assert prompt_ids
        self.prompt_ids, self.seed, self.stage, self.shuffle = prompt_ids, seed, stage, shuffle
        self.position = 0
        self.visits: dict[str, int] = {}
        self._order: tuple[int, list[int]] = (-1, [])

    def take(self, count: int) -> list[tuple[int, int]]:
        """The next prompts as (index, visit number) pairs."""
        taken = []
        for _ in range(count):
            epoch, place = divmod(self.position, len(self.prompt_ids))
            index = self._epoch_order(epoch)[place]
            prompt_id = self.prompt_ids[index]
            taken.append((index, self.visits.get(prompt_id, 0)))
            self.visits[prompt_id] = self.visits.get(prompt_id, 0) + 1
            self.position += 1
        return taken

    def state(self) -> dict[str, Any]:
        return {"position": self.position, "visits": dict(self.visits), "prompts": self._digest()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises `DataError` where it was made over other prompts."""
        if state["prompts"] != self._digest():
            raise DataError(
                f"the {len(self.prompt_ids)} prompts of stage {self.stage} are not those that the run was begun with",
                fix="resume with the rows of its start, in the same order, or start a new run",
            )
        self.position, self.visits = state["position"], dict(state["visits"])

    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self.prompt_ids).encode()).hexdigest()

    def _epoch_order(self, epoch: int) -> list[int]:
        if self._order[0] != epoch:
            order = list(range(len(self.prompt_ids)))
            if self.shuffle:
                random.Random(f"{self.seed}/{self.stage}/{epoch}").shuffle(order)
            self._order = (epoch, order)
        return self._order[1]
