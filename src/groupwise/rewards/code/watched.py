"""The sandboxes of one run while they work: streams are read within bounds, limits are kept, the report is taken."""

from __future__ import annotations

import os
import select
import time

from groupwise.rewards.code.box import Box
from groupwise.rewards.code.result import Limits, Result

FIRST_LOOK, LAST_LOOK, SLOWER = 0.01, 0.05, 1.3
"""Seconds between two looks at what a run uses: short at first, since most runs are."""
EXAMINER_EXTRA = 5.0
"""CPU seconds that the tests may take beyond the program's."""
_LARGEST_REPORT = 8192
_PART = 65536


class Watched:
    """One run: `wait` until it ends or meets a limit, then see `judged`, `report` and `output`."""

    def __init__(self, limits: Limits, candidate: Box, examiner: Box | None = None, stdin: bytes = b"") -> None:
        self.judged: Result | None = None
        """Set where a limit was met."""
        self.report = b""
        """Of the examiner, or of the program where there is none."""
        self.stdout, self.stderr = bytearray(), bytearray()
        self.asleep = 0.0
        """Seconds that all processes of the run were."""
        self._limits, self._candidate, self._examiner = limits, candidate, examiner
        self._stdin = memoryview(stdin)
        self._written = 0
        self._streams = {candidate.stdout: self.stdout, candidate.stderr: self.stderr}
        self._reporter = examiner or candidate

    def wait(self) -> None:
        """Until there is a report, the last process has ended, or a limit is met."""
        start = last = time.monotonic()
        pause, was_busy = FIRST_LOOK, True
        poll = self._register()
        while self.judged is None:
            ended = self._serve(poll, pause)
            if self.judged is None and ended:
                self._drain()
                return
            now = time.monotonic()
            if now - last < pause:
                continue
            busy = self._look(now - start)
            if not busy and not was_busy:
                self.asleep += now - last
                if self.asleep > self._limits.sleep_seconds:
                    self._judge("timeout", f"slept for more than {self._limits.sleep_seconds:g} seconds")
            was_busy, last, pause = busy, now, min(LAST_LOOK, pause * SLOWER)

    def _register(self) -> select.poll:
        poll = select.poll()
        for descriptor in (*self._streams, self._reporter.report):
            poll.register(descriptor, select.POLLIN)
        for box in (self._candidate, self._examiner):
            if box is not None:
                poll.register(box.ended, select.POLLIN)
        if self._examiner is not None:
            for descriptor in (self._examiner.stdout, self._examiner.stderr):
                poll.register(descriptor, select.POLLIN)
        if self._stdin:
            poll.register(self._candidate.stdin, select.POLLOUT)
        else:
            self._candidate.close_stdin()
        return poll

    def _serve(self, poll: select.poll, pause: float) -> bool:
        """Move what can be moved; whether the run has ended."""
        ended = False
        for descriptor, _ in poll.poll(1000 * pause):
            if descriptor == self._reporter.ended:
                ended = True
            elif descriptor == self._candidate.ended:
                poll.unregister(descriptor)  # the examiner, if there is one, notices and says so
            elif descriptor == self._candidate.stdin:
                self._write(poll)
            elif not self._read(descriptor):
                poll.unregister(descriptor)
        return ended

    def _write(self, poll: select.poll) -> None:
        try:
            self._stdin = self._stdin[os.write(self._candidate.stdin, self._stdin[:_PART]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin = memoryview(b"")
        if not self._stdin:
            poll.unregister(self._candidate.stdin)
            self._candidate.close_stdin()

    def _read(self, descriptor: int) -> bool:
        """Take what there is; False at the end."""
        try:
            part = os.read(descriptor, _PART)
        except BlockingIOError:
            return True
        if descriptor == self._reporter.report:
            self.report = (self.report + part)[:_LARGEST_REPORT]
        elif descriptor in self._streams:
            self._written += len(part)
            self._streams[descriptor] += part
            if self._written > self._limits.output_bytes:
                self._judge("output_limit", f"wrote more than {self._limits.output_bytes} bytes")
                return False
        return bool(part)

    def _drain(self) -> None:
        """What is left in the pipes of processes that have all ended."""
        for descriptor in (*self._streams, self._reporter.report):
            while self.judged is None:
                before = self._written, len(self.report)
                if not self._read(descriptor) or before == (self._written, len(self.report)):
                    break

    def _look(self, wall: float) -> bool:
        """Keep the limits; whether any thread is at work."""
        limits, usage = self._limits, self._candidate.measure()
        busy = usage.busy
        if usage.cpu_seconds > limits.timeout_s:
            self._judge("timeout", f"used more than {limits.timeout_s:g} seconds of CPU time")
        elif self._candidate.over(limits.memory_mb << 20, usage):
            self._judge("oom", f"held more than {limits.memory_mb} MiB")
        elif wall > limits.wall_seconds:
            self._judge("timeout", f"took longer than {limits.wall_seconds:g} seconds")
        if self._examiner is not None:
            used = self._examiner.measure()
            busy = busy or used.busy
            if self.judged is None and used.cpu_seconds > limits.timeout_s + EXAMINER_EXTRA:
                self._judge("timeout", "its tests used too much CPU time", who="")
        return busy

    def _judge(self, verdict: str, what: str, who: str = "the program ") -> None:
        self.judged = Result(verdict, who + what)  # type: ignore[arg-type]
