"""What is free: the system's word, and that of the control groups around the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupwise.planning.machine import free_memory

GIB = 2**30


def machine(root: Path, available: int, listing: str, **groups: tuple[object, int, int]) -> Path:
    """A root with MemAvailable, /proc/self/cgroup, and groups by path: limit, use, cached files."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available // 1024} kB\n")
    (root / "proc" / "self" / "cgroup").write_text(listing)
    for path, (limit, use, cached) in groups.items():
        folder = root / "sys/fs/cgroup" / path.replace("__", "/")
        old = path.startswith("memory")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("memory.limit_in_bytes" if old else "memory.max")).write_text(f"{limit}\n")
        (folder / ("memory.usage_in_bytes" if old else "memory.current")).write_text(f"{use}\n")
        name = "total_inactive_file" if old else "inactive_file"
        (folder / "memory.stat").write_text(f"anon 5\n{name} {cached}\n")
    return root


def test_without_a_limit_it_is_what_the_system_has(tmp_path):
    root = machine(tmp_path, 7 * GIB, "0::/user\n", user=("max", 5 * GIB, 0))
    assert free_memory(root) == 7 * GIB


def test_a_limit_leaves_what_is_not_used_and_cached_files_give_way(tmp_path):
    root = machine(tmp_path, 7 * GIB, "0::/user\n", user=(4 * GIB, 3 * GIB, GIB))
    assert free_memory(root) == 2 * GIB


def test_the_limits_of_groups_above_hold_too(tmp_path):
    root = machine(tmp_path, 7 * GIB, "0::/a/b\n", a=(3 * GIB, GIB, 0), a__b=(5 * GIB, GIB, 0))
    assert free_memory(root) == 2 * GIB


def test_groups_of_version_1(tmp_path):
    listing = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"
    root = machine(tmp_path, 7 * GIB, listing, memory__job=(6 * GIB, 2 * GIB, GIB), memory=(2**63 - 4096, GIB, 0))
    assert free_memory(root) == 5 * GIB


@pytest.mark.parametrize("use", [4 * GIB, 5 * GIB])
def test_a_group_over_its_limit_leaves_nothing(tmp_path, use):
    assert free_memory(machine(tmp_path, 7 * GIB, "0::/user\n", user=(4 * GIB, use, 0))) == 0


def test_a_group_whose_folder_is_not_to_be_seen_is_passed_over(tmp_path):
    assert free_memory(machine(tmp_path, 7 * GIB, "0::/elsewhere\n")) == 7 * GIB


def test_of_this_machine():
    assert free_memory() > 0
