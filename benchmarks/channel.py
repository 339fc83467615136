"""How the orchestrator talks to a side's process: one JSON line each way, on pipes that no library prints to.

A side is a program that loads a model and then serves `serve(handle)`; the orchestrator holds a `Side`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

THREADS = 1
"""One thread, and CPU time beside wall-clock time: on a shared machine nothing else can be compared."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": str(THREADS),
    "OMP_WAIT_POLICY": "PASSIVE",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
"""The same for both sides. Spinning threads would cost either of them many times over."""


class Side:
    """A running process of one side."""

    def __init__(self, python: Path | str, program: str, *arguments: str) -> None:
        self.name = " ".join([Path(program).stem, *arguments])
        command = [str(python), str(Path(__file__).parent / program), *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
        )
        self._answer()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self._process.wait()}; its last words are above")
        return json.loads(line)


def commands() -> Iterator[tuple[dict[str, Any], Callable[[Mapping[str, Any]], None]]]:
    """In a side's process: each command with the function that answers it. Says first that the side is ready."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error

    def answer(data: Mapping[str, Any]) -> None:
        print(json.dumps(data), file=out, flush=True)

    answer({"ready": True})
    for line in sys.stdin:
        yield json.loads(line), answer


class Stopwatch:
    """CPU and wall-clock seconds by phase."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin a new step."""
        self.cpu: dict[str, float] = {}
        self.wall: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens inside is this phase."""
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu
            self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall

    def report(self) -> dict[str, Any]:
        """Seconds of the phases; what a step holds beside rollout and reward is its update."""
        for seconds in (self.cpu, self.wall):
            seconds["update"] = seconds["step"] - seconds.get("rollout", 0.0) - seconds.get("reward", 0.0)
        return {"cpu": dict(self.cpu), "wall": dict(self.wall), "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
