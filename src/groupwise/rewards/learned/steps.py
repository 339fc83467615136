"""The steps of a completion: where they end, on text and on the sampled ids, and how their rewards become one.

A step is a piece of the completion's text between separators; a blank piece is none. It ends with its last character
that is no white space, and on the sampled ids with the first token with which that character is complete
(`Record.token_ends`): nothing is tokenised again. Where one token ends two steps, it gets the lower of their rewards,
and none where one of them has none.

| aggregate | the completion's value |
|---|---|
| `min` | the lowest step reward: a chain is as good as its weakest step |
| `product` | their product: the chance that every step is right, were they independent |
| `last` | that of the last step |
| `sum` | their sum; longer is better where rewards are positive |
| `mean` | their mean |

A step whose reward is None does not count in it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Literal

from groupwise.rewards.contract import Record
from groupwise.types import Score, Span

Aggregate = Literal["min", "product", "last", "sum", "mean"]

AGGREGATES: dict[Aggregate, Callable[[Sequence[float]], float]] = {
    "min": min,
    "product": math.prod,
    "last": lambda rewards: rewards[-1],
    "sum": math.fsum,
    "mean": lambda rewards: math.fsum(rewards) / len(rewards),
}


def split(text: str, separator: str) -> list[Span]:
    """Start and end of every step, in characters."""
    spans, start = [], 0
    for piece in text.split(separator):
        if piece.strip():
            spans.append((start, start + len(piece.rstrip())))
        start += len(piece) + len(separator)
    return spans


def scored(record: Record, steps: Sequence[Span], rewards: Sequence[float | None], aggregate: Aggregate) -> Score:
    """The score of a completion from a reward for each of its steps."""
    given = [reward for reward in rewards if reward is not None]
    if not given:
        return _score(record, steps, rewards, None, "" if steps else "not scored: the completion has no step")
    shown = ", ".join("-" if reward is None else f"{reward:.3g}" for reward in rewards[:12])
    more = f", ... ({len(rewards)})" if len(rewards) > 12 else ""
    return _score(record, steps, rewards, AGGREGATES[aggregate](given), f"{aggregate} of the steps' {shown}{more}")


def failed(record: Record, steps: Sequence[Span], reason: str) -> Score:
    """No value, and None for each step."""
    return _score(record, steps, [None] * len(steps), None, reason)


def _score(
    record: Record, steps: Sequence[Span], rewards: Sequence[float | None], value: float | None, reason: str
) -> Score:
    """With step rewards where it is known what tokens hold; elsewhere the algorithm asks for none."""
    if record.token_ends is None:
        return Score(value, reason=reason)
    placed: dict[int, float | None] = {}
    for (_, end), reward in zip(steps, rewards, strict=True):
        token = bisect_left(record.token_ends, end)
        before = placed.get(token, reward)
        placed[token] = None if before is None or reward is None else min(before, reward)
    return Score(value, reason=reason, step_rewards=tuple(placed.values()), step_ends=tuple(placed))
