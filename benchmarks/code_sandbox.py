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


def machine_cpu() -> float:
    """CPU seconds that the whole machine has been busy: sandboxes outlive nobody's account but the kernel's."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def alone(runs: int, *, pairs: bool) -> None:
    """One after the other."""
    walls, cpu = [], machine_cpu()
    for _ in range(runs):
        start = time.perf_counter()
        if pairs:
            result = code.run("print(input())", io_tests=[code.IOTest("1", "1")])
        else:
            result = code.run(PROGRAM, TESTS)
        assert result.verdict == "pass", result
        walls.append(1000 * (time.perf_counter() - start))
    cpu = 1000 * (machine_cpu() - cpu) / runs
    name = "pair of input and output" if pairs else "tests"
    print(f"{name}, alone: median {statistics.median(walls):.0f} ms, {cpu:.0f} ms of CPU per run")


def pooled(runs: int, workers: int) -> None:
    """Through the reward."""
    reward = code.Code(workers=workers).build(Path())
    text = f"```python\n{PROGRAM}\n```"
    record = Record("g", "p", "", None, {"tests": TESTS}, text, text, (), "stop")
    try:
        reward.score([record] * workers * 2)
        start, cpu = time.perf_counter(), machine_cpu()
        scores = reward.score([record] * runs)
        wall, cpu = time.perf_counter() - start, machine_cpu() - cpu
    finally:
        reward.close()
    assert all(score.correct for score in scores)
    print(f"reward, {workers} workers: {runs / wall:.1f} runs per second, {1000 * cpu / runs:.0f} ms of CPU per run")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs, {'root' if os.geteuid() == 0 else 'a user'}")
    alone(count // 2, pairs=False)
    alone(count // 2, pairs=True)
    pooled(count, int(sys.argv[2]) if len(sys.argv) > 2 else 2)
