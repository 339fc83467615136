"""One worker process as the trainer holds it: start, ask within a deadline, kill.

It is started clean (no fork of the trainer, no open files, no environment but what is passed), in a session
of its own, so that killing its process group ends whatever the reward function started as well. Deadlines are
kept here, outside it, by waiting on pipes: no signal is involved, so any thread may ask.
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
from typing import Any

from groupwise.errors import RewardError
from groupwise.rewards.target import Target
from groupwise.rewards.worker import LENGTH

START_LIMIT = 120.0
"""Wall-clock seconds for starting and importing the user's file, which may import large libraries."""
LARGEST_ANSWER = 16 * 2**20
"""Bytes. More than any score needs; a reward function must not fill the trainer's memory."""


class TimedOut(Exception):
    """The worker didn't answer in time."""


class Died(Exception):
    """The worker ended, or answered nonsense; the message says how."""


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

    def __init__(self, target: Target, variables: Mapping[str, str]) -> None:
        answers, theirs = os.pipe()
        self._answers = open(answers, "rb", buffering=0)  # noqa: SIM115 (closed by `kill`)
        command = [sys.executable, "-u", "-s", "-P", "-m", "groupwise.rewards.worker"]
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs), str(os.getpid()), target.place, target.function],
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
        return self._receive(time.monotonic() + limit)

    def ask(self, records: bytes, count: int, limit: float) -> list[dict[str, Any]]:
        """One plain outcome for each of `count` pickled records, within `limit` seconds.

        Raises `TimedOut`, `Died`.
        """
        deadline = time.monotonic() + limit
        number = secrets.randbits(62)  # so that no call can answer for the next one
        payload = pickle.dumps((number, count, records))
        self._send(LENGTH.pack(len(payload)) + payload, deadline)
        answer = self._receive(deadline)
        outcomes = answer.get("outcomes")
        if answer.get("number") != number or not isinstance(outcomes, list) or len(outcomes) != count:
            raise Died("answered out of turn")
        return outcomes

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

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._requests.fileno(), select.POLLOUT, deadline)
            try:
                view = view[os.write(self._requests.fileno(), view) :]
            except BrokenPipeError:
                raise Died(self._how_it_ended()) from None

    def _receive(self, deadline: float) -> dict[str, Any]:
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

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(self._answers.fileno(), select.POLLIN, deadline)
            part = os.read(self._answers.fileno(), size - len(data))
            if not part:
                raise Died(self._how_it_ended())
            data += part
        return bytes(data)

    @staticmethod
    def _wait(descriptor: int, event: int, deadline: float) -> None:
        ready = select.poll()
        ready.register(descriptor, event)
        if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimedOut

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return f"was ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
