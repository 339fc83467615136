"""The program that a worker process runs: it loads one reward function and calls it for the trainer.

    python -m groupwise.rewards.workers.worker ANSWERS_FD TRAINER_PID MEMORY_MB PLACE FUNCTION [SETTINGS]

Requests come on standard input: 8 bytes of length and a pickle of (number, count, pickled records). Answers
go to a pipe of their own, so that what the function prints can't be mistaken for one: 8 bytes of length and a
JSON object, plain data because this process runs foreign code. The first answer says how loading went.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import select
import signal
import struct
import sys
import time
from typing import Any, BinaryIO

from groupwise.rewards.workers.normalise import call_function, describe, fault, to_plain
from groupwise.rewards.workers.target import Loaded, LoadError, Target, load

LENGTH = struct.Struct(">Q")


def main() -> None:
    """Serve until the trainer closes its end."""
    answers_fd, trainer, memory_mb = (int(word) for word in sys.argv[1:4])
    target = Target(*sys.argv[4:])
    requests_fd = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the function must not read our requests
    os.set_inheritable(answers_fd, False)
    _start_guard(requests_fd, answers_fd, trainer)
    if memory_mb:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb * 2**20, memory_mb * 2**20))
    with open(requests_fd, "rb") as requests, open(answers_fd, "wb") as answers:
        try:
            loaded = load(target)
        except LoadError as error:
            _answer(answers, {"what": error.what, "fix": error.fix})
            return
        _answer(answers, {"group": loaded.group, "columns": loaded.columns})
        while length := requests.read(LENGTH.size):
            payload = requests.read(LENGTH.unpack(length)[0])
            _answer(answers, _serve(loaded, payload, target.shown))


def _serve(loaded: Loaded, payload: bytes, name: str) -> dict[str, Any]:
    number, count, pickled = pickle.loads(payload)
    start = _cpu_seconds()
    try:
        records = pickle.loads(pickled)
    except Exception as error:  # a column of a type that can't be rebuilt here may raise anything
        outcomes = [fault(f"{name} can't be given this row: {describe(error)}")] * count
    else:
        outcomes = call_function(loaded.function, records, group=loaded.group, name=name, file=loaded.file)
    return {
        "number": number,
        "outcomes": [to_plain(outcome) for outcome in outcomes],
        "cpu_seconds": _cpu_seconds() - start,
        "peak_mb": _peak_mb(),
    }


def _cpu_seconds() -> float:
    """Of this process, and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _peak_mb() -> float:
    """The most memory that this program has held. `ru_maxrss` won't do: it begins with what the trainer held."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 2**10


def _answer(answers: BinaryIO, data: dict[str, Any]) -> None:
    encoded = json.dumps(data).encode()
    answers.write(LENGTH.pack(len(encoded)) + encoded)
    answers.flush()


def _start_guard(requests_fd: int, answers_fd: int, trainer: int) -> None:
    """Fork a process that does nothing but wait for the trainer's end, and then kills this process group.

    It is no thread, because a function may hold the interpreter's lock for ever; and no parent-death signal,
    because Linux sends that when the *thread* that started the worker ends, and does not send it to what the
    function started.
    """
    if os.fork():
        return
    os.close(answers_fd)  # else the trainer would not see the worker's end
    end = select.poll()
    end.register(requests_fd, 0)  # reports when no process holds the other end any more
    try:
        end.register(os.pidfd_open(trainer), select.POLLIN)  # even if a fork of the trainer still holds it
    except ProcessLookupError:
        os.kill(0, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # a system without pidfd_open
    end.poll()
    os.kill(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
