"""The program that a worker process runs: it loads one reward function and calls it for the trainer.

    python -m groupwise.rewards.worker ANSWERS_FD TRAINER_PID PLACE FUNCTION

Requests come on standard input: 8 bytes of length and a pickle of (number, count, pickled records). Answers
go to a pipe of their own, so that what the function prints can't be mistaken for one: 8 bytes of length and a
JSON object, plain data because this process runs foreign code. The first answer says how loading went.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import struct
import sys
from typing import Any, BinaryIO

from groupwise.rewards.normalise import call_function, describe, fault, to_plain
from groupwise.rewards.target import Loaded, LoadError, Target, load

LENGTH = struct.Struct(">Q")


def main() -> None:
    """Serve until the trainer closes its end."""
    answers_fd, trainer, target = int(sys.argv[1]), int(sys.argv[2]), Target(sys.argv[3], sys.argv[4])
    requests_fd = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the function must not read our requests
    os.set_inheritable(answers_fd, False)
    _start_guard(requests_fd, answers_fd, trainer)
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
    try:
        records = pickle.loads(pickled)
    except Exception as error:  # a column of a type that can't be rebuilt here may raise anything
        outcomes = [fault(f"{name} can't be given this row: {describe(error)}")] * count
    else:
        outcomes = call_function(loaded.function, records, group=loaded.group, name=name, file=loaded.file)
    return {"number": number, "outcomes": [to_plain(outcome) for outcome in outcomes]}


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
