"""What a reward function returns or raises, as a `Score`: the same in a worker process and in the trainer's.

| returned            | value     | correct       |
|---------------------|-----------|---------------|
| a bool              | 1 or 0    | that bool     |
| a finite number     | it        | None: unknown |
| None                | None      | None          |
| a `Score`           | its value | its verdict   |
| anything else       | None, with a reason that names the function |

None means "does not apply here" and carries no reason. What the function raises, a NaN or infinite number, or
an object of another type is a *fault*: not scored, with a reason, and counted. `Unavailable` is the machine's.
"""

from __future__ import annotations

import math
import reprlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

from groupwise.rewards.contract import Record, Unavailable
from groupwise.types import Score

LONGEST_REASON = 1000
"""Characters. A reason is read by people, and a function could raise with megabytes of text."""


Fault = Literal["", "reward", "machine"]
"""Whose fault it is that there is no score: nobody's, the reward function's, or the machine's."""


class Outcome(NamedTuple):
    """A score, what kept the reward from giving one, and what the call took."""

    score: Score
    fault: Fault = ""
    cpu_seconds: float = 0.0
    """CPU time of the whole call, in the worker and in what it started and waited for."""
    wall_seconds: float = 0.0


def fault(reason: str, whose: Fault = "reward") -> Outcome:
    """Not scored, because of the function or the machine and not of the completion."""
    return Outcome(Score(value=None, reason=_short(reason)), whose)


def call_function(
    function: Callable[..., Any],
    records: Sequence[Record],
    *,
    group: bool,
    name: str,
    file: str | None = None,
) -> list[Outcome]:
    """Call a reward function on one record (or, with `group`, on all records of a group) and read what it
    returns.

    `name` is what reasons call the function; `file` tells its own lines from a library's in a traceback.
    """
    try:
        if not group:
            return [_read(function(records[0]), records[0], name)]
        results = list(function(list(records)))
        if len(results) != len(records):
            wrong = fault(f"{name} returned {len(results)} results for {len(records)} records")
            return [wrong] * len(records)
        return [_read(result, record, name) for result, record in zip(results, records, strict=True)]
    except Unavailable as error:
        return [fault(f"{name}: {error}", "machine")] * len(records)
    except (Exception, SystemExit) as error:  # what a user's function raises concerns this sample alone
        return [fault(f"{name} raised {describe(error, file)}")] * len(records)


def describe(error: BaseException, file: str | None = None) -> str:
    """The exception on one line, with its place: the last line reached in `file`, else the last of all."""
    lines = traceback.format_exception_only(error)
    text = " ".join((lines[-1] if isinstance(error, SyntaxError) else lines[0]).split())
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text} ({error.filename}, line {error.lineno})"
    # The first frame is our own call; those of the import system say nothing.
    frames = [f for f in traceback.extract_tb(error.__traceback__)[1:] if not f.filename.startswith("<frozen")]
    frame = next((f for f in reversed(frames) if f.filename == file), frames[-1] if frames else None)
    return f"{text} ({frame.filename}, line {frame.lineno}: {frame.line})" if frame else text


def to_plain(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON values."""
    score = outcome.score
    return {
        "value": score.value,
        "correct": score.correct,
        "reason": score.reason,
        "parts": dict(score.parts),
        "step_rewards": score.step_rewards,
        "step_ends": score.step_ends,
        "fault": outcome.fault,
    }


def from_plain(data: Mapping[str, Any], name: str) -> Outcome:
    """The outcome that `to_plain` wrote, checked again because a worker runs foreign code.

    Raises KeyError, TypeError, ValueError or AttributeError where it is something else.
    """
    fields = ("value", "correct", "reason", "parts", "step_rewards", "step_ends")
    outcome = _read_score(Score(**{field: data[field] for field in fields}), name)
    if outcome.fault:
        return outcome
    whose: Fault = {"": "", "reward": "reward", "machine": "machine"}[data["fault"]]  # type: ignore[assignment]
    return Outcome(outcome.score, whose)


def _read(result: Any, record: Record, name: str) -> Outcome:
    if result is None:
        return Outcome(Score(value=None))
    if _is_bool(result):
        return Outcome(Score(value=float(result), correct=bool(result)))
    if isinstance(result, Real):
        value = _finite(result)
        return fault(f"{name} returned {result}") if value is None else Outcome(Score(value=value))
    if isinstance(result, Score):
        outcome, tokens = _read_score(result, name), len(record.token_ids)
        if (ends := outcome.score.step_ends) and ends[-1] >= tokens:
            return fault(f"{name} returned a Score with a step that ends at token {ends[-1]} of 0 to {tokens - 1}")
        return outcome
    kind, shown = type(result).__name__, reprlib.repr(result)
    return fault(f"{name} returned {shown} ({kind}); return a bool, a number, None or a Score")


def _read_score(score: Score, name: str) -> Outcome:
    problem = _problem(score)
    if problem:
        return fault(f"{name} returned a Score {problem}")
    return Outcome(
        Score(
            value=None if score.value is None else float(score.value),
            correct=None if score.correct is None else bool(score.correct),
            reason=_short(score.reason),
            parts={key: None if part is None else float(part) for key, part in score.parts.items()},
            step_rewards=_floats(score.step_rewards),
            step_ends=None if score.step_ends is None else tuple(int(end) for end in score.step_ends),
        )
    )


def _problem(score: Score) -> str | None:
    if not _optional_number(score.value):
        return f"whose value is {reprlib.repr(score.value)}"
    if score.correct is not None and not _is_bool(score.correct):
        return f"whose correct is {reprlib.repr(score.correct)}"
    if not isinstance(score.reason, str):
        return f"whose reason is {reprlib.repr(score.reason)}"
    for key, part in score.parts.items():
        if not isinstance(key, str) or not _optional_number(part):
            return f"whose part {reprlib.repr(key)} is {reprlib.repr(part)}"
    rewards, ends = score.step_rewards, score.step_ends
    if (rewards is None) != (ends is None) or len(rewards or ()) != len(ends or ()):
        return "with step_rewards and step_ends of different lengths"
    if not all(_optional_number(reward) for reward in rewards or ()):
        return f"whose step_rewards are {reprlib.repr(rewards)}"
    if not all(isinstance(end, Integral) for end in ends or ()):
        return f"whose step_ends are {reprlib.repr(ends)}"
    if any(after <= before for before, after in zip((-1, *(ends or ())), ends or (), strict=False)):
        return f"whose step_ends do not rise: {reprlib.repr(ends)}"
    return None


def _optional_number(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and _finite(value) is not None)


def _finite(value: Real) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _floats(values: Sequence[float | None] | None) -> tuple[float | None, ...] | None:
    return None if values is None else tuple(None if value is None else float(value) for value in values)


def _is_bool(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # its bool is no number; where numpy isn't loaded, nothing can be one
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."
