"""The task `worked_sums`: `2+3+4=` is answered in steps, `5+4=9`, in characters, for a model that starts from nothing.

Each step writes the sum that is left once the first numbers are added up, so a verifier can judge every step and not
the answer alone: rewards of steps (process supervision) as well as of completions, from plain arithmetic. A step ends
with its `=`, the last one with the end of the completion.

The training rows and the test rows are different sums; each test sum is made of additions that training rows have.
Which sums are held out does not depend on the seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, product
from typing import Any, Literal, Protocol

from pydantic import Field

from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.keyed import keyed_order
from groupwise.types import Score


class WorkedSums(Settings):
    """Sums of one-digit numbers, added up from the left in steps that are written down."""

    name: Literal["worked_sums"] = "worked_sums"
    numbers: int = Field(default=3, ge=2, le=4)
    """How many numbers a sum has: 3 gives 1,000 sums, whose answers have two steps."""
    largest: int = Field(default=9, ge=1, le=9)
    """The largest number in a sum; smaller ones make fewer sums, which are learned sooner."""
    held_out: float = Field(default=0.2, gt=0, le=0.4)
    """Share of the sums that are for the test alone."""

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """Every sum of the split once, in an order that the seed decides."""
        sums = keyed_order(product(range(self.largest + 1), repeat=self.numbers), "worked_sums")
        test = max(1, round(self.held_out * len(sums)))
        chosen = sums[:test] if split == "test" else sums[test:]
        return [_row(numbers) for numbers in keyed_order(chosen, "worked_sums", seed, split)]

    def reward(self) -> Mapping[str, Any]:
        """Right where the answer is, with rewards of steps."""
        return {"name": "function", "target": "groupwise.tasks.worked_sums:verify", "label": "worked_sums"}


class Answered(Protocol):
    """The part of a reward's record that `verify` reads."""

    @property
    def columns(self) -> Mapping[str, Any]: ...
    @property
    def text(self) -> str: ...
    @property
    def token_ids(self) -> tuple[int, ...]: ...
    @property
    def token_ends(self) -> tuple[int, ...] | None: ...
    @property
    def finish_reason(self) -> str: ...


def verify(record: Answered) -> Score:
    """1 where the steps are as many as there are additions and the last is the answer, else 0; with token ends in the
    record, a reward of 1 or 0 for each step too.

    Step k is right where it is the given sum with its first k + 1 numbers added up, and so were all before it: nothing
    is right after an error, and writing more steps earns nothing. The step in which the completion ends must be the
    answer itself; what was cut at the token limit is wrong.
    """
    numbers = list(record.columns["numbers"])
    steps = re.findall(r"[^=]*=|[^=]+$", record.text) if record.text else []
    if not steps or (steps[-1].endswith("=") and record.finish_reason == "stop"):
        steps.append("")  # it stopped where a step was to come
    if record.finish_reason == "aborted":
        return _score(record, None, "sampling was aborted", steps, [None] * len(steps))
    rewards = _rewards(steps, numbers, stopped=record.finish_reason == "stop")
    wanted = len(numbers) - 1
    right = record.finish_reason == "stop" and len(steps) == wanted and steps[-1] == str(sum(numbers))
    reason = f"{len(steps)} of {wanted} steps, the last is {steps[-1]!r}, and the sum is {sum(numbers)}"
    return _score(record, right, reason, steps, rewards)


verify.columns = ["numbers"]  # type: ignore[attr-defined]


def _rewards(steps: Sequence[str], numbers: Sequence[int], *, stopped: bool) -> list[float | None]:
    """1 or 0 for each step."""
    rewards: list[float | None] = []
    sound = True
    for number, step in enumerate(steps, start=2):
        left = [sum(numbers[:number]), *numbers[number:]]
        sound = sound and number <= len(numbers) and step.removesuffix("=") == "+".join(map(str, left))
        finished = step.endswith("=") or (stopped and len(left) == 1)
        rewards.append(float(sound and finished))
    return rewards


def _score(
    record: Answered, right: bool | None, reason: str, steps: Sequence[str], rewards: Sequence[float | None]
) -> Score:
    """The score, with step rewards where it is known which token each step ends with."""
    value = None if right is None else float(right)
    if record.token_ends is None:
        return Score(value, right, reason)
    ends: list[int] = []
    kept: list[float | None] = []
    last = len(record.token_ids) - 1
    for place, (reached, reward) in enumerate(zip(accumulate(map(len, steps)), rewards, strict=True)):
        whole = next((token for token, end in enumerate(record.token_ends) if end >= reached), last)
        end = last if place == len(steps) - 1 else whole
        if end < 0:
            continue  # nothing was sampled, so there is no token to reward
        if ends and ends[-1] == end:  # one token ends both
            kept[-1] = None if reward is None or kept[-1] is None else min(kept[-1], reward)
        else:
            ends.append(end)
            kept.append(reward)
    return Score(value, right, reason, step_rewards=tuple(kept), step_ends=tuple(ends))


def _row(numbers: Sequence[int]) -> dict[str, Any]:
    asked = "+".join(map(str, numbers))
    steps = ["+".join(map(str, [sum(numbers[:now]), *numbers[now:]])) for now in range(2, len(numbers) + 1)]
    return {
        "id": asked,
        "prompt": f"{asked}=",
        "numbers": list(numbers),
        "answer": str(sum(numbers)),
        "completion": "=".join(steps),
    }
