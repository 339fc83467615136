"""What one run of a trivial program costs in the code sandbox: runs per second, latency and CPU time.

    python benchmarks/code_sandbox.py [RUNS] [WORKERS]

Three figures: `code.run` alone, which starts both sandboxes of a run for it; the reward in its worker processes, each
with the next sandboxes ready; and pairs of input and output, which need one sandbox. Results: results/code_sandbox.md.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

from groupwise.rewards import code
from groupwise.rewards.contract import Record

PROGRAM, TESTS = "def add(a, b): return a + b", "assert add(1, 2) == 3"


def alone(runs: int, *, pairs: bool) -> None:
    """One after the other."""
    walls, cpus = [], []
    for _ in range(runs):
        io_tests = [code.IOTest("", "1")] if pairs else []
        result = code.run("print(1)" if pairs else PROGRAM, "" if pairs else TESTS, io_tests)
        assert result.verdict == "pass", result
        walls.append(1000 * result.wall_seconds)
        cpus.append(1000 * result.cpu_seconds)
    name = "pair of input and output" if pairs else "tests"
    wall, cpu = statistics.median(walls), statistics.median(cpus)
    print(f"{name}, alone: median {wall:.0f} ms, of which {cpu:.0f} ms of CPU in the sandboxes")


def pooled(runs: int, workers: int) -> None:
    """Through the reward."""
    reward = code.Code(workers=workers).build(Path())
    text = f"```python\n{PROGRAM}\n```"
    record = Record("g", "p", "", None, {"tests": TESTS}, text, text, (), "stop")
    try:
        reward.score([record] * workers * 2)
        start = time.perf_counter()
        scores = reward.score([record] * runs)
        wall = time.perf_counter() - start
    finally:
        reward.close()
    assert all(score.correct for score in scores)
    print(f"reward, {workers} workers: {runs / wall:.1f} runs per second")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs, {'root' if os.geteuid() == 0 else 'a user'}")
    alone(count // 2, pairs=False)
    alone(count // 2, pairs=True)
    pooled(count, int(sys.argv[2]) if len(sys.argv) > 2 else 2)
