"""Waiting for something to happen, telling whether processes are alive, and being another user."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it never happened")


def group_lives(group: int) -> bool:
    """Whether a process of this process group is alive; a zombie is not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state not in "ZX":
            return True
    return False


def interpreter_for(user: int) -> tuple[str, str]:
    """An interpreter of this version that the user can start, and the path for its imports."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    for program in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        command = [program, "-c", "import groupwise.rewards.code, pydantic, numpy"]
        try:
            subprocess.run(
                command,
                user=user,
                group=user,
                extra_groups=[],
                env={"PYTHONPATH": path},
                capture_output=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return program, path
    pytest.skip("no interpreter here can be started by another user")
