"""What a process and all its descendants use, read from /proc by somebody outside."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


_FILE = 1024
"""Bytes of kernel memory that even an empty file takes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a tree of processes."""

    cpu_seconds: float = 0.0
    """Since the watch began."""
    resident: int = 0
    """Bytes of the processes; pages that they share count once for each."""
    files: int = 0
    """Bytes of the files in memory that they can write."""
    busy: bool = False
    """Whether a thread runs, or would if the machine let it."""

    @property
    def memory(self) -> int:
        """Bytes of both kinds."""
        return self.resident + self.files


class Watch:
    """Looks at one tree again and again.

    The kernel adds a process's CPU time to its parent's account when the parent waits for it, and to nobody's where the
    parent doesn't care. So the time of processes that have gone is the greater of what parents were charged with, and
    of what the processes had used when they were last seen.
    """

    def __init__(self, root: int, folders: Sequence[str] = (), size: int = 0) -> None:
        """`folders` are those in memory, as the tree sees them, each with room for `size` bytes."""
        self._root, self._folders, self._size = root, folders, size
        self._seen: dict[int, int] = {}
        self._gone = 0
        self.before = 0.0
        """CPU seconds that the tree had used when the watch began."""
        self.before = self.look().cpu_seconds

    def look(self) -> Usage:
        """What the tree uses now; processes that end meanwhile are left out."""
        charged = pages = 0
        busy = False
        seen: dict[int, int] = {}
        for process in tree(self._root):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _stat(f"/proc/{process}/stat")
                seen[process] = int(fields[11]) + int(fields[12])
                charged += int(fields[13]) + int(fields[14])
                pages += int(fields[21])
                if not busy:
                    busy = any(_stat(f"/proc/{process}/task/{t}/stat")[0] in "RD" for t in _threads(process))
        self._gone += sum(ticks for process, ticks in self._seen.items() if process not in seen)
        self._seen = seen
        ticks = sum(seen.values()) + max(charged, self._gone)
        return Usage(max(0.0, ticks * _TICK - self.before), pages * _PAGE, self._files(), busy)

    def _files(self) -> int:
        total = 0
        for folder in self._folders:
            with contextlib.suppress(OSError):
                found = os.statvfs(f"/proc/{self._root}/root{folder}")
                if found.f_blocks * found.f_frsize != self._size:
                    continue  # the tree has not moved into its own file system yet
                total += (found.f_blocks - found.f_bfree) * found.f_frsize + (found.f_files - found.f_ffree) * _FILE
        return total


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
