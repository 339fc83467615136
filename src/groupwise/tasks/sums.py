"""The task `sums`: `3+4=` is answered by `7`, in characters, for a model small enough to be trained from
nothing.

There are few sums (100 of one digit), so the split is fixed: a fifth of the sums is held out whatever the
seed, and every held-out sum a+b has its mirror image b+a among the training sums. The test therefore asks
whether the model has learnt that order does not matter, and not merely the table it was shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.keyed import keyed_order

HELD_OUT_SHARE = 0.2


class Sums(Settings):
    """Sums of two numbers, without words: the prompt is `a+b=` and the answer its digits."""

    name: Literal["sums"] = "sums"
    digits: int = Field(default=1, ge=1, le=2)
    """The most digits that a number may have: 1 gives 100 sums (80 to train on, 20 to test), 2 gives
    10,000."""

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """Every sum of the split once, in an order that the seed decides."""
        size = 10**self.digits
        mixed = keyed_order(((a, b) for a in range(size) for b in range(a + 1, size)), "sums")
        held_out = {
            pair if index % 2 else pair[::-1]
            for index, pair in enumerate(mixed[: round(HELD_OUT_SHARE * size**2)])
        }
        pairs = [
            (a, b) for a in range(size) for b in range(size) if ((a, b) in held_out) == (split == "test")
        ]
        return [_row(a, b) for a, b in keyed_order(pairs, "sums", seed, split)]

    def reward(self) -> Mapping[str, Any]:
        """The whole completion must be the answer."""
        return {"name": "exact", "column": "answer"}


def _row(a: int, b: int) -> dict[str, str]:
    return {"id": f"{a}+{b}", "prompt": f"{a}+{b}=", "answer": str(a + b), "completion": str(a + b)}
