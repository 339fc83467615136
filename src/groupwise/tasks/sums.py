"""The task `sums`: `3+4=` is answered by `7`, in characters, for a model small enough to start from nothing.

There are few sums (100 of one digit), and a model of under a million parameters learns them as a table. So by
default it is trained and tested on all of them, and the test says how reliably it answers, not whether it has
understood addition. With `held_out`, the test has sums that are never trained on; each such a+b has its
mirror image b+a among the training sums, so that this test can be passed by learning that order does not
matter. Which sums are held out does not depend on the seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.keyed import keyed_order


class Sums(Settings):
    """Sums of two numbers, without words: the prompt is `a+b=` and the answer its digits."""

    name: Literal["sums"] = "sums"
    digits: int = Field(default=1, ge=1, le=2)
    """The most digits that a number may have: 1 gives 100 sums, 2 gives 10,000."""
    held_out: float = Field(default=0.0, ge=0, le=0.4)
    """Share of the sums that are for the test alone; 0 trains and tests on all of them."""

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """Every sum of the split once, in an order that the seed decides."""
        size = 10**self.digits
        pairs = [(a, b) for a in range(size) for b in range(size)]
        if self.held_out:
            held_out = self._held_out_pairs(size)
            pairs = [pair for pair in pairs if (pair in held_out) == (split == "test")]
        return [_row(a, b) for a, b in keyed_order(pairs, "sums", seed, split)]

    def _held_out_pairs(self, size: int) -> set[tuple[int, int]]:
        """Pairs of different numbers, never with their mirror image."""
        rising = keyed_order(((a, b) for a in range(size) for b in range(a + 1, size)), "sums")
        chosen = rising[: max(1, round(self.held_out * size**2))]
        return {pair if index % 2 else pair[::-1] for index, pair in enumerate(chosen)}

    def reward(self) -> Mapping[str, Any]:
        """The whole completion must be the answer."""
        return {"name": "exact", "column": "answer"}


def _row(a: int, b: int) -> dict[str, str]:
    return {"id": f"{a}+{b}", "prompt": f"{a}+{b}=", "answer": str(a + b), "completion": str(a + b)}
