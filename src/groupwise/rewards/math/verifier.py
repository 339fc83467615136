"""The verifier alone, without a run: texts and golds in, scores out, each call within hard limits.

    from groupwise.rewards import math

    math.grade("... so it is $\\\\boxed{\\\\frac{1}{2}}$.", "0.5")       # Score(value=1.0, correct=True, reason=...)

    with math.Verifier(math.Policy(percent="strict"), workers=4) as verifier:
        scores = verifier.grade_many([(text, gold) for text, gold in pairs])

Both may be called from any thread, and from asyncio through `asyncio.to_thread`: a limit is kept by killing a
process, so no signal is involved. What meets a limit is not scored, and the next call is served as if nothing was.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from groupwise.rewards.contract import Record
from groupwise.rewards.math.policy import Policy
from groupwise.rewards.math.reward import MEMORY_MB, pool_of
from groupwise.rewards.workers.limits import Limits
from groupwise.rewards.workers.normalise import Outcome
from groupwise.types import FinishReason, Score

_COLUMN = "answer"


class Verifier:
    """Worker processes that grade; they are started when first needed, and end with `close`."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        workers: int = 2,
        cpu_seconds: float = 3.0,
        wall_seconds: float = 20.0,
        memory_mb: int | None = MEMORY_MB,
    ) -> None:
        """At most `workers` calls at once, each within CPU and wall-clock seconds and MiB of address space."""
        self._pool = pool_of(policy or Policy(), workers, Limits(cpu_seconds, wall_seconds, memory_mb), _COLUMN)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def grade(self, text: str, gold: Any, finish_reason: FinishReason = "stop") -> Score:
        """1 where the answer in `text` is the gold, else 0; not scored for an unreadable gold or a limit met."""
        return self.outcomes([(text, gold)], finish_reason)[0].score

    def grade_many(self, pairs: Iterable[tuple[str, Any]], finish_reason: FinishReason = "stop") -> list[Score]:
        """One score for each text and gold, in order."""
        return [outcome.score for outcome in self.outcomes(pairs, finish_reason)]

    def outcomes(self, pairs: Iterable[tuple[str, Any]], finish_reason: FinishReason = "stop") -> list[Outcome]:
        """As `grade_many`, with the CPU and wall-clock seconds of each, and whose fault it is that one isn't scored."""
        return self._pool.score([_record(text, gold, finish_reason) for text, gold in pairs])

    def close(self) -> None:
        """End the worker processes; calls in flight end as not scored."""
        self._pool.close()


def _record(text: str, gold: Any, finish_reason: FinishReason) -> Record:
    return Record("", "", "", None, {_COLUMN: gold}, text, text, (), finish_reason)


_lock = threading.Lock()
_shared: Verifier | None = None


def grade(text: str, gold: Any, finish_reason: FinishReason = "stop") -> Score:
    """Grade one completion under the default policy and limits, by workers that all callers in this process share."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = Verifier()
            atexit.register(_shared.close)
    return _shared.grade(text, gold, finish_reason)
