"""What a process and all its descendants use, read from /proc by somebody outside."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a tree of processes."""

    cpu_seconds: float = 0.0
    """Of the processes there are and of those that they waited for."""
    resident: int = 0
    """Bytes; pages that processes share count once for each."""
    busy: bool = False
    """Whether a thread runs, or would if the machine let it."""


def measure(root: int) -> Usage:
    """What the tree uses now; processes that end meanwhile are left out."""
    ticks = pages = 0
    busy = False
    for process in tree(root):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = _stat(f"/proc/{process}/stat")
            ticks += sum(map(int, fields[11:15]))  # user, system, and both of children waited for
            pages += int(fields[21])
            if not busy:
                busy = any(_stat(f"/proc/{process}/task/{t}/stat")[0] in "RD" for t in _threads(process))
    return Usage(ticks * _TICK, pages * _PAGE, busy)


def proportional(root: int) -> int:
    """Resident bytes, shared pages divided among those that share them; slower than `measure`."""
    total = 0
    for process in tree(root):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
            total += next((int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:")), 0)
    return total


def tree(root: int) -> Iterator[int]:
    """The process and all its descendants."""
    waiting, seen = [root], set()
    while waiting:
        process = waiting.pop()
        if process in seen:
            continue
        seen.add(process)
        yield process
        for thread in _threads(process):
            with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as file:
                waiting += map(int, file.read().split())


def _threads(process: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{process}/task")
    except OSError:
        return []


def _stat(path: str) -> list[str]:
    """The fields that follow the name, which is in parentheses and may hold anything."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
