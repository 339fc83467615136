"""The model that all runs begin with, trained once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sums_runs
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So small a model is quickest with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder."""
    return sums_runs.start_model(tmp_path_factory.mktemp("start"))
