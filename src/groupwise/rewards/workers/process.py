"""One worker process as the trainer holds it: start, ask within a deadline, kill.

It is started clean (no fork of the trainer, no open files, no environment but what is passed), in a session
of its own, so that killing its process group ends whatever the reward function started as well. Limits are kept
here, outside it, by waiting on pipes and reading its CPU clock: no signal is involved, so any thread may ask.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupwise.errors import RewardError
from groupwise.rewards.workers.limits import Limits, cpu_clock
from groupwise.rewards.workers.target import Target
from groupwise.rewards.workers.worker import LENGTH

START_LIMIT = 120.0
"""Wall-clock seconds for starting and importing the user's file, which may import large libraries."""
LARGEST_ANSWER = 16 * 2**20
"""Bytes. More than any score needs; a reward function must not fill the trainer's memory."""


LOOK_AGAIN = 0.25
"""Seconds between two looks at a worker's CPU clock, which several threads can move faster than the wall's."""


class TimedOut(Exception):
    """The worker didn't answer in time; the message says which limit it met."""


class Died(Exception):
    """The worker ended, or answered nonsense; the message says how."""

    def __init__(self, how: str, *, killed: bool = False) -> None:
        super().__init__(how)
        self.killed = killed
        """By a signal that no program sends itself: the machine's doing, most likely for want of memory."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one call."""

    outcomes: list[dict[str, Any]]
    """Plain ones, for each record."""
    cpu_seconds: float
    peak_mb: float
    """The most memory that the worker has held so far, in MiB."""


def environment(names: Sequence[str], reward: str) -> dict[str, str]:
    """What a worker sees: how to find programs and modules, and the named variables. Raises `RewardError`."""
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise RewardError(
            f"reward {reward!r} asks for the environment variable {missing[0]!r}, which isn't set",
            fix=f"set it before the start, or take it out of `env` (now {list(names)})",
        )
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "0",  # else the order of a set, and perhaps a score, changes from start to start
        **{name: os.environ[name] for name in names},
    }


class WorkerProcess:
    """A running worker. Used by one thread at a time."""

    def __init__(self, target: Target, variables: Mapping[str, str], memory_mb: int | None = None) -> None:
        answers, theirs = os.pipe()
        self._answers = open(answers, "rb", buffering=0)  # noqa: SIM115 (closed by `kill`)
        command = [sys.executable, "-u", "-s", "-P", "-m", "groupwise.rewards.workers.worker"]
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs), str(os.getpid()), str(memory_mb or 0), *target.words],
                stdin=subprocess.PIPE,
                stdout=2,  # what the function prints goes to standard error
                bufsize=0,
                env=variables,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        self._requests = self._process.stdin
        os.set_blocking(self._answers.fileno(), False)
        os.set_blocking(self._requests.fileno(), False)

    def loaded(self, limit: float = START_LIMIT) -> dict[str, Any]:
        """The first answer: `group` and `columns`, or `what` and `fix`. Raises `TimedOut`, `Died`."""
        return self._receive(_Deadline(self._process.pid, Limits(limit, limit)))

    def ask(self, records: bytes, count: int, limits: Limits) -> Answer:
        """One plain outcome for each of `count` pickled records, within the limits.

        Raises `TimedOut`, `Died`.
        """
        deadline = _Deadline(self._process.pid, limits)
        number = secrets.randbits(62)  # so that no call can answer for the next one
        payload = pickle.dumps((number, count, records))
        self._send(LENGTH.pack(len(payload)) + payload, deadline)
        answer = self._receive(deadline)
        outcomes = answer.get("outcomes")
        if answer.get("number") != number or not isinstance(outcomes, list) or len(outcomes) != count:
            raise Died("answered out of turn")
        return Answer(outcomes, float(answer["cpu_seconds"]), float(answer["peak_mb"]))

    def end(self) -> None:
        """Kill the process and all that it started, from any thread; the thread that asks gets `Died`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it, dead already or not, and let go of its pipes."""
        self.end()
        self._process.wait()
        self._answers.close()
        self._requests.close()

    def _send(self, data: bytes, deadline: _Deadline) -> None:
        view = memoryview(data)
        while view:
            deadline.wait(self._requests.fileno(), select.POLLOUT)
            try:
                view = view[os.write(self._requests.fileno(), view) :]
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, deadline: _Deadline) -> dict[str, Any]:
        length = LENGTH.unpack(self._read(LENGTH.size, deadline))[0]
        if length > LARGEST_ANSWER:
            raise Died(f"answered with {length} bytes")
        try:
            answer = json.loads(self._read(length, deadline))
        except (ValueError, RecursionError):
            raise Died("answered with something else than JSON") from None
        if not isinstance(answer, dict):
            raise Died("answered with something else than an object")
        return answer

    def _read(self, size: int, deadline: _Deadline) -> bytes:
        data = bytearray()
        while len(data) < size:
            deadline.wait(self._answers.fileno(), select.POLLIN)
            part = os.read(self._answers.fileno(), size - len(data))
            if not part:
                raise self._ended()
            data += part
        return bytes(data)

    def _ended(self) -> Died:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return Died("closed its pipe")
        if code >= 0:
            return Died(f"ended with status {code}")
        return Died(f"was ended by signal {signal.Signals(-code).name}", killed=-code == signal.SIGKILL)


class _Deadline:
    """The limits of one call from now on."""

    def __init__(self, process: int, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._wall = time.monotonic() + limits.wall_seconds
        self._cpu = self._used() + limits.cpu_seconds

    def wait(self, descriptor: int, event: int) -> None:
        """Until the descriptor is ready. Raises `TimedOut`."""
        ready = select.poll()
        ready.register(descriptor, event)
        while True:
            wall, cpu = self._wall - time.monotonic(), self._cpu - self._used()
            if ready.poll(1000 * max(0.0, min(wall, cpu, LOOK_AGAIN))):
                return
            if cpu <= 0:
                raise TimedOut(f"took more than {_seconds(self._limits.cpu_seconds)} of CPU time")
            if wall <= 0:
                raise TimedOut(f"took longer than {_seconds(self._limits.wall_seconds)}")

    def _used(self) -> float:
        try:
            return cpu_clock(self._process)
        except OSError:  # it has ended, which its pipe will tell
            return 0.0


def _seconds(count: float) -> str:
    return f"{count:g} second{'' if count == 1 else 's'}"
