"""Records and reward files for the tests of rewards."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupwise.rewards.contract import Record
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target
from groupwise.types import FinishReason

MakeRecord = Callable[..., Record]
MakePool = Callable[..., WorkerPool]


@pytest.fixture
def record() -> MakeRecord:
    def make(text: str, prompt_id: str = "p", finish_reason: FinishReason = "stop", **columns: Any) -> Record:
        return Record(prompt_id, prompt_id, "Say it.", None, columns, text, text, (1, 2), finish_reason)

    return make


@pytest.fixture
def reward_file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a file of reward functions."""

    def write(source: str, name: str = "rewards.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def pool(reward_file: Callable[[str], Path]) -> Iterator[MakePool]:
    """Pools over the function `reward` of the given source; all are closed at the end."""
    made: list[WorkerPool] = []

    def make(source: str, function: str = "reward", **settings: Any) -> WorkerPool:
        made.append(WorkerPool(Target(str(reward_file(source)), function), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
