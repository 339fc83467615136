"""A model that gets about a third of one-digit sums right, trained once for all tests of evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from groupwise.telemetry.display import Silent
from groupwise.training.api import train

RUN = """
steps = 16
task = "sums"
model = { name = "builtin:tiny-char", dtype = "float32" }
algorithm = "sft"
prompts = { per_step = 64 }
sampling = { group_size = 4, max_tokens = 4 }
optimizer = { learning_rate = 1e-3 }
evaluation = { prompts = 24, samples = 4 }
checkpoint = { every = 8 }
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with checkpoints of steps 8 and 16."""
    folder = tmp_path_factory.mktemp("trained")
    file = folder / "sums.toml"
    file.write_text(RUN)
    torch.set_num_threads(1)
    return train(file, out=folder / "run", display=Silent()).folder
