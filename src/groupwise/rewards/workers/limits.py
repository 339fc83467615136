"""What one call of a reward may take, and whether the machine fails too often to go on."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from groupwise.errors import RewardError
from groupwise.rewards.workers.normalise import Outcome

WINDOW, LEAST, RATE = 200, 20, 0.2
"""A run stops when the machine is to blame for at least LEAST, and for RATE, of the last WINDOW completions."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one call: one completion, or one group for a `@group_reward`."""

    cpu_seconds: float = 10.0
    """CPU time of the worker: the limit that decides, since other load on the machine doesn't change it."""
    wall_seconds: float = 60.0
    """Wall-clock time: the limit that ends a call that waits."""
    memory_mb: int | None = None
    """MiB of address space of the worker, libraries included; None: no limit."""


def cpu_clock(process: int) -> float:
    """CPU seconds that a running process has used, all its threads together. Raises OSError when it has ended."""
    return time.clock_gettime((~process << 3) | 2)  # how Linux numbers the CPU clock of another process


class MachineFaults:
    """Keeps count of the completions that could not be scored because of the machine. Used under a lock."""

    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=WINDOW)

    def see(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of some outcomes."""
        self._recent.extend(outcome.score.reason if outcome.fault == "machine" else "" for outcome in outcomes)

    def stop_if_too_many(self, reward: str) -> None:
        """Raise `RewardError` with the commonest cause where the rate is too high to go on."""
        causes = Counter(cause for cause in self._recent if cause)
        if causes.total() >= max(LEAST, RATE * len(self._recent)):
            cause, _ = causes.most_common(1)[0]
            told = f"{causes.total()} of the last {len(self._recent)} completions"
            raise RewardError(f"reward {reward!r}: the machine kept {told} from being scored: {cause}", fix="mend that")
