"""Runs programs in sandboxes and judges them.

The program runs alone; its tests run in a second sandbox (`inside/examiner.py`) that talks to it over two pipes, in
plain data, and reports to this process on a pipe that the program doesn't have. A pair of input and output needs no
second sandbox: its output is compared here. Whatever happens, all processes of a run are dead when it returns.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import get_args

from groupwise.errors import RewardError
from groupwise.rewards.code.box import Box, BoxError
from groupwise.rewards.code.compare import difference
from groupwise.rewards.code.prepare import Prepared, prepare
from groupwise.rewards.code.result import IOTest, Limits, Result, Verdict
from groupwise.rewards.code.setup import TMP_BYTES, WHY_NOT, Isolation, Setup
from groupwise.rewards.code.watched import EXAMINER_EXTRA, Watched

EXAMINER_MB = 1024
"""What the tests may hold."""
ADDRESS_MB = 2048
"""MiB of address space beyond the memory limit: libraries map more than they use."""
STACK_BYTES = 120 << 20
"""More than the usual 8 MiB, for programs that raise the recursion limit; what the kernel leaves room for."""
GOING_ON = ("pass", "fail", "error", "blocked", "output_limit")
"""Verdicts on one pair after which the others are still worth a run: a program that meets a limit of time or memory
would meet it again and again."""
BLOCKED = (1, 13, 30, 101)
"""EPERM, EACCES, EROFS, ENETUNREACH."""


class Runner:
    """Runs one program after the other. With `spare`, the next sandbox starts while the last run is being judged.

    Not for several threads at once.
    """

    def __init__(
        self, libraries: Sequence[str] = ("numpy",), isolation: Isolation = "sandbox", *, spare: bool = False
    ) -> None:
        self._setup = Setup.make(tuple(libraries), isolation)
        self._keep_spare = spare
        self._spare: list[Box] = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox that stands ready."""
        while self._spare:
            self._spare.pop().end()

    def run(
        self,
        program: str,
        tests: str = "",
        io_tests: Sequence[IOTest] = (),
        limits: Limits | None = None,
        *,
        entry_point: str = "",
        all_pairs: bool = False,
    ) -> Result:
        """What comes of the program. With `all_pairs`, pairs after the first that fails are run as well,
        but none after a limit of time or memory was met.

        Raises `BoxError` where a sandbox doesn't start.
        """
        start, limits = time.perf_counter(), limits or Limits()
        result = self._run(program, tests, list(io_tests), limits, entry_point, all_pairs)
        return replace(result, wall_seconds=time.perf_counter() - start)

    def _run(
        self, program: str, tests: str, pairs: list[IOTest], limits: Limits, entry_point: str, all_pairs: bool
    ) -> Result:
        prepared = None
        if tests.strip():
            try:
                prepared = prepare(tests, entry_point)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return Result("error", f"no tests: they don't compile: {error}")
        if not pairs and (prepared is None or not prepared.checks):
            return Result("error", "no tests" if prepared is None else "no tests: nothing in them checks anything")
        results = []
        if prepared is not None:
            results.append(self._examine(program, prepared, limits))
        for number, pair in enumerate(pairs, start=1):
            if results and results[-1].verdict not in (GOING_ON if all_pairs else ("pass",)):
                break
            if sum(result.cpu_seconds + result.asleep_seconds for result in results) > limits.total_seconds:
                results.append(
                    Result("timeout", f"the tests before test {number} took {limits.total_seconds:g} seconds")
                )
                break
            result = self._feed(program, pair, limits)
            results.append(replace(result, reason=f"test {number}: {result.reason}" if result.reason else ""))
        worst = next((result for result in results if result.verdict != "pass"), results[0])
        return replace(
            worst,
            cpu_seconds=sum(result.cpu_seconds for result in results),
            asleep_seconds=sum(result.asleep_seconds for result in results),
            passed=sum(result.passed for result in results),
            total=(prepared.checks if prepared else 0) + len(pairs),
        )

    # -- a program and its tests ----------------------------------------------------------------------------------

    def _examine(self, program: str, prepared: Prepared, limits: Limits) -> Result:
        boxes = self._ready(2)
        candidate, examiner = boxes
        try:
            watched = Watched(limits, candidate, examiner)
            own = _inside(limits.timeout_s + EXAMINER_EXTRA, EXAMINER_MB, limits.processes)
            examiner.send({**prepared.task, "limits": own})
            candidate.send(
                {"program": program, "limits": _inside(limits.timeout_s, limits.memory_mb, limits.processes)}
            )
            self._prepare_spare(2)
            watched.wait()
        finally:
            (_, cpu), (_, tests_cpu) = candidate.end(), examiner.end()
        result = replace(watched.judged or _examined(watched.report, prepared), total=prepared.checks)
        if result.verdict == "pass" and cpu > limits.timeout_s:
            result = _late(limits)
        return replace(result, cpu_seconds=cpu + tests_cpu, asleep_seconds=watched.asleep)

    # -- a program, its input and its output ----------------------------------------------------------------------

    def _feed(self, program: str, pair: IOTest, limits: Limits) -> Result:
        (candidate,) = self._ready(1)
        try:
            room = limits.output_bytes + 2 * len(pair.stdout.encode("utf-8", "surrogatepass"))
            watched = Watched(
                replace(limits, output_bytes=room), candidate, stdin=pair.stdin.encode("utf-8", "surrogateescape")
            )
            candidate.send(
                {"program": program, "limits": _inside(limits.timeout_s, limits.memory_mb, limits.processes)}
            )
            self._prepare_spare(1)
            watched.wait()
        finally:
            status, cpu = candidate.end()
        result = watched.judged
        if result is None and cpu > limits.timeout_s:
            result = _late(limits)
        if result is None:
            printed = watched.stdout.decode("utf-8", "replace")
            result = _ended(watched.report, status, bytes(watched.stderr)) or _compared(printed, pair.stdout)
        return replace(result, cpu_seconds=cpu, asleep_seconds=watched.asleep, passed=int(result.verdict == "pass"))

    # -- sandboxes ------------------------------------------------------------------------------------------------

    def _ready(self, count: int) -> list[Box]:
        """Fresh sandboxes: one, or one for the program and one for the tests."""
        boxes, self._spare = self._spare, []
        if len(boxes) == count and all(box.alive for box in boxes):
            return boxes
        for box in boxes:
            box.end()
        return self._start(count)

    def _prepare_spare(self, count: int) -> None:
        if self._keep_spare:
            self._spare = self._start(count)

    def _start(self, count: int) -> list[Box]:
        if count == 1:
            return [Box(self._setup, "program")]
        to_program, from_tests = os.pipe()
        to_tests, from_program = os.pipe()
        try:
            first = Box(self._setup, "program", to_program, from_program)
        except BoxError:
            os.close(to_tests)
            os.close(from_tests)
            raise
        try:
            return [first, Box(self._setup, "examiner", to_tests, from_tests)]
        except BoxError:
            first.end()
            raise


def _inside(cpu: float, memory_mb: int, processes: int) -> list[tuple[str, int]]:
    """The limits that the kernel keeps, of each process but for the number of processes."""
    return [
        ("AS", (memory_mb + ADDRESS_MB) << 20),
        ("CPU", math.ceil(cpu) + 3),
        ("NPROC", processes),
        ("NOFILE", 256),
        ("FSIZE", TMP_BYTES),
        ("CORE", 0),
        ("STACK", STACK_BYTES),
    ]


def _late(limits: Limits) -> Result:
    return Result("timeout", f"the program used more than {limits.timeout_s:g} seconds of CPU time")


def _examined(report: bytes, prepared: Prepared) -> Result:
    """The examiner's report as a result."""
    parts = report.decode("utf-8", "replace").split("\n", 3)
    if len(parts) != 4 or parts[0] not in get_args(Verdict):
        return Result("error", "the tests ended without a verdict")
    verdict, line, executed, reason = parts
    number = int(line)
    if number:
        quoted = prepared.lines[number - 1].strip() if number <= len(prepared.lines) else ""
        reason = f"line {number} of the tests, {quoted!r}" + (f": {reason}" if reason else "")
    passed = int(executed) - (verdict != "pass" and int(executed) > 0)
    return Result(verdict, reason, passed=passed)  # type: ignore[arg-type]


def _ended(report: bytes, status: int, stderr: bytes) -> Result | None:
    """How a program that ended badly ended; None for one that ended well."""
    parts = report.decode("utf-8", "replace").split("\n", 2)
    if len(parts) == 3:
        name, number, text = parts
        if name == "MemoryError":
            return Result("oom", "the program was refused memory")
        refused = name == "PermissionError" or number in map(str, BLOCKED)
        return Result("blocked" if refused else "error", f"the program ends with {name}: {text}")
    if status == 0:
        return None
    how = f"signal {signal.Signals(status - 128).name}" if status - 128 in set(signal.Signals) else f"status {status}"
    last = bytes(stderr[-500:]).decode("utf-8", "replace").strip().splitlines()[-1:]
    return Result("error", f"the program ends with {how}" + "".join(f": {line}" for line in last))


def _compared(printed: str, expected: str) -> Result:
    wrong = difference(printed, expected)
    return Result("fail", wrong) if wrong else Result("pass")


def run_once(
    program: str,
    tests: str,
    io_tests: Sequence[IOTest],
    limits: Limits | None,
    entry_point: str,
    libraries: Sequence[str],
    isolation: str,
) -> Result:
    """One run with sandboxes of its own. Raises `RewardError` where they don't start."""
    if isolation not in get_args(Isolation):
        raise RewardError(f"code: isolation {isolation!r} isn't known", fix=f"give one of {get_args(Isolation)}")
    with Runner(libraries, isolation) as runner:  # type: ignore[arg-type]
        try:
            return runner.run(program, tests, io_tests, limits, entry_point=entry_point)
        except BoxError as error:
            raise sandbox_error(error) from None


def sandbox_error(error: BoxError) -> RewardError:
    """For a user on whose machine no sandbox starts."""
    fix = "allow user namespaces (in a container: docker run --security-opt seccomp=unconfined, or --privileged)"
    return RewardError(f"the code sandbox doesn't start: {error}", fix=f"{fix}, {WHY_NOT}")
