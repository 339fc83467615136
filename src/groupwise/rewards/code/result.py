"""What a run is given and what comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail", "error", "timeout", "oom", "blocked", "output_limit"]
"""`pass`: every check held. `fail`: one didn't. `error`: the program or the tests raised, ended early, or there is
nothing to check. `timeout`, `oom`, `output_limit`: a limit was met. `blocked`: the program was refused something that
the sandbox forbids, and ended on it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one run of a program: of all its processes together."""

    timeout_s: float = 5.0
    """CPU seconds, which other load on the machine doesn't change. A run that sleeps ends after twice as long asleep,
    and any run after ten times as long, and at least thirty seconds more, by the clock."""
    memory_mb: int = 512
    """MiB of memory in use."""
    output_bytes: int = 1 << 20
    """Of standard output and standard error together; beyond twice what is expected on standard output."""
    processes: int = 64
    """Processes and threads at once."""
    total_seconds: float = math.inf
    """CPU seconds and seconds asleep, of its tests and all pairs of input and output together."""

    @property
    def sleep_seconds(self) -> float:
        """How long all processes of a run may be asleep."""
        return 2 * self.timeout_s

    @property
    def wall_seconds(self) -> float:
        """By the clock."""
        return max(10 * self.timeout_s, self.timeout_s + 30)


@dataclass(frozen=True, slots=True)
class IOTest:
    """What a program is given on standard input, and must print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a program."""

    verdict: Verdict
    reason: str = ""
    """Why, in words, with the line of the tests or of the program; empty for a pass."""
    cpu_seconds: float = 0.0
    """Of the program and its tests."""
    asleep_seconds: float = 0.0
    """How long no process of theirs had anything to do."""
    wall_seconds: float = 0.0
    passed: int = 0
    """How many checks held: pairs of input and output, or check statements of the tests that were got through."""
    total: int = 0
    """How many there are. 0: there was nothing to check, so that the verdict says nothing of the program."""
