"""`groupwise verify`: a verifier on a file of cases, JSON lines in, one JSON line out per case, in order.

    {"id": "a", "gold": "1/2", "prediction": "so it is \\\\boxed{0.5}"}
    {"id": "a", "verdict": "right", "reason": "...", "seconds": 0.004, "wall_seconds": 0.005}

`seconds` is the CPU time of the case. Cases are read as they are needed: no more than a few for each worker are in
memory, however large the file is. A line that is no case gives a line too, with the verdict of what could not be judged
and a reason that names the line; blank lines are skipped.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

AHEAD = 4
"""Cases in hand for each worker, so that none waits while an earlier case takes long."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one case."""

    verdict: str
    reason: str
    seconds: float = 0.0
    """CPU time."""
    wall_seconds: float = 0.0


class BadCase(ValueError):
    """A line, or a field of it, that can't be used; the message says which."""


class Judge(Protocol):
    """A verifier as `groupwise verify` uses it; called from several threads at once."""

    @property
    def unjudged(self) -> str:
        """The verdict of a line that is no case."""

    def judge(self, case: Mapping[str, Any]) -> Verdict:
        """The verdict. Raises `BadCase` for a field that is missing or of another type."""

    def close(self) -> None:
        """End whatever processes it holds."""


def verified(lines: Iterable[bytes], judge: Judge, workers: int) -> Generator[dict[str, Any], None, None]:
    """One object for each line that isn't blank, in order; `workers` cases at once."""
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    threads = ThreadPoolExecutor(workers, thread_name_prefix="verify")
    in_hand: deque[Future[dict[str, Any]]] = deque()
    try:
        for number, line in islice(numbered, AHEAD * workers):
            in_hand.append(threads.submit(_one, number, line, judge))
        while in_hand:
            yield in_hand.popleft().result()
            for number, line in islice(numbered, 1):
                in_hand.append(threads.submit(_one, number, line, judge))
    finally:
        threads.shutdown(cancel_futures=True)


def field(case: Mapping[str, Any], name: str, kinds: type | tuple[type, ...], what: str, default: Any = None) -> Any:
    """A field of the case; `default` (None: it must be there) where it is missing or null. Raises `BadCase`."""
    value = case.get(name)
    if value is None and default is not None:
        return default
    if name not in case:
        raise BadCase(f"there is no field {name!r}")
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise BadCase(f"the field {name!r} is {_shown(value)}, not {what}")
    return value


def _one(number: int, line: bytes, judge: Judge) -> dict[str, Any]:
    identity = None
    try:
        case = _read(line)
        identity = case.get("id")
        verdict = judge.judge(case)
    except BadCase as error:
        verdict = Verdict(judge.unjudged, f"line {number}: {error}")
    return {
        "id": identity,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "seconds": round(verdict.seconds, 6),
        "wall_seconds": round(verdict.wall_seconds, 6),
    }


def _read(line: bytes) -> dict[str, Any]:
    try:
        case = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadCase("not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise BadCase(f"not JSON ({error})") from error
    if not isinstance(case, dict):
        raise BadCase(f"{_shown(case)} is no object")
    return case


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
