"""groupwise: reinforcement-learning post-training of language models, with GRPO at its centre."""

import os
import sys
from typing import TYPE_CHECKING, Any

if "torch" not in sys.modules:
    # An OpenMP thread that spins while it waits costs a whole time slice when another process has its core:
    # 7 to 15 times slower small operations on a shared machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from groupwise.evaluation import Evaluation, evaluate
    from groupwise.rewards.contract import group_reward
    from groupwise.run_file import load_run
    from groupwise.training.api import Result, resume, train
    from groupwise.types import Score

_PLACES = {
    "train": "groupwise.training.api",
    "resume": "groupwise.training.api",
    "Evaluation": "groupwise.evaluation",
    "evaluate": "groupwise.evaluation",
    "Result": "groupwise.training.api",
    "load_run": "groupwise.run_file",
    "group_reward": "groupwise.rewards.contract",
    "Score": "groupwise.types",
}

__all__ = ["Evaluation", "Result", "Score", "evaluate", "group_reward", "load_run", "resume", "train"]


def __getattr__(name: str) -> Any:
    """Import on first use: reward workers import this package and must not wait for torch."""
    if name not in _PLACES:
        raise AttributeError(f"module 'groupwise' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
