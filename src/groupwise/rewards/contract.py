"""What a reward is: records in, one `Score` per record out, with three outcomes: right, wrong, not scored.

A user's reward is a plain function in a file:

    def reward(record):                       # called once per completion
        return record.text.strip() == record.columns["answer"]

It may return a bool (right or wrong), a number (the reward; `correct` stays unknown), None (not scored) or a `Score`.
A reward that must see a whole group at once (ranks, diversity) is decorated:

    @group_reward
    def shortest(records):                    # records of one prompt, in sample order; returns one result per record
        longest = max(len(r.token_ids) for r in records)
        return [1 - len(r.token_ids) / longest for r in records]

Rewards run in a process of their own, with hard limits per call that are enforced by killing it, and see
nothing of the trainer's environment but what the run file passes. What a reward raises, or returns wrongly, makes
that sample "not scored", is counted and shown, and never touches another sample. A reward that is kept from its work
by the machine (a server that doesn't answer, a missing program) raises `Unavailable`: the call is tried again, then
not scored, and where that happens too often the run stops with the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from groupwise.types import FinishReason, Score


@dataclass(frozen=True, slots=True)
class Record:
    """All that a reward may know about one completion."""

    group_id: str
    """Completions of one group share it; the same prompt visited twice makes two groups."""
    prompt_id: str
    prompt: str
    """The rendered prompt; its tail shows what the template pre-filled, an opened thinking block for instance."""
    messages: tuple[Mapping[str, Any], ...] | None
    columns: Mapping[str, Any]
    """Every other column of the data row."""
    text: str
    """The completion without its terminator, other special tokens kept."""
    clean_text: str
    """The completion without any special token."""
    token_ids: tuple[int, ...]
    """The sampled ids, terminator included."""
    finish_reason: FinishReason
    token_ends: tuple[int, ...] | None = None
    """For each token how many characters of `text` are complete with it; a step that takes the first n characters ends
    with the first token that has n or more. None where the algorithm asks for no step rewards."""


class Reward(Protocol):
    """See the module's docstring."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raise `DataError` or `RewardError`, before a model is loaded, where these rows can't be scored."""

    def score(self, records: Sequence[Record]) -> list[Score]:
        """One score per record, in order. Records of one prompt are contiguous. Never raises for a bad sample."""

    def close(self) -> None:
        """End whatever processes it holds."""


@runtime_checkable
class Noted(Protocol):
    """A reward with something to say before a run starts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know, each a line."""


@runtime_checkable
class TriesRows(Protocol):
    """A reward whose check tries rows, which takes a while, and finds all that won't do in one pass."""

    def announced(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """What the check of these rows takes its time for."""

    def bad_rows(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """By number: the rows that `check` would refuse, and why. Raises `RewardError` where none can be scored."""


class Unavailable(Exception):
    """Raised by a reward that the machine kept from its work, and not the sample; the message says what is missing."""


Function = TypeVar("Function", bound=Callable[..., Any])


def group_reward(function: Function) -> Function:
    """Mark a reward function as taking all records of one group at once and returning one result for each."""
    function.groupwise_group_reward = True  # type: ignore[attr-defined]
    return function
