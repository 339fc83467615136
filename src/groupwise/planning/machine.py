"""How much memory this process may still take, without torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

KINDS = {
    "unified": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Control groups of version 2 and 1: where they tell limit, use, and which part of the use is cached files that give
way."""


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that can be taken now: what the system has available, or what the control groups leave where that is less.

    Systems other than Linux tell only what is installed.
    """
    return min([_system(root / "proc" / "meminfo"), *_control_groups(root)])


def _system(meminfo: Path) -> int:
    if meminfo.is_file():
        for line in meminfo.read_text("utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_groups(root: Path) -> Iterator[int]:
    """What each group that this process is in leaves, and each group above: all limits hold."""
    listing = root / "proc" / "self" / "cgroup"
    if not listing.is_file():
        return
    for line in listing.read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys" / "fs" / "cgroup" / ("memory" if controllers else "")
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            yield from _left(folder, KINDS["memory" if controllers else "unified"])
            if folder == mount:
                break


def _left(folder: Path, names: tuple[str, str, str]) -> Iterator[int]:
    """Limit less use of one group; nothing where it has no limit."""
    limit, use, cached = names
    if not (folder / limit).is_file() or (most := (folder / limit).read_text("utf-8").strip()) == "max":
        return
    statistics = dict(line.split() for line in (folder / "memory.stat").read_text("utf-8").splitlines())
    held = int((folder / use).read_text("utf-8")) - int(statistics.get(cached, 0))
    yield max(0, int(most) - held)
