"""A run in a process of its own that kills itself, with SIGKILL, at a given place.

    python killing.py PLACE STEP RUN.toml OUT

Started by `test_kills.py`. `STEP` is the 1-based step in hand when the signal comes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from groupwise.engines.torch import _Running
from groupwise.telemetry import ledger, metrics
from groupwise.training import api, checkpoint
from groupwise.training.trainer import Trainer
from groupwise.training.update import Update

PLACES: dict[str, tuple[Any, str, int, str]] = {
    "sampling": (_Running, "decode", 2, "before"),
    "before the update": (Update, "step", 1, "before"),
    "inside the update": (Update, "_apply", 1, "before"),
    "after the update": (Update, "step", 1, "after"),
    "before the ledger": (ledger, "write", 1, "before"),
    "inside the ledger": (ledger.parquet, "write_table", 1, "after"),
    "between ledger and metrics": (metrics, "append", 1, "before"),
    "before saving": (checkpoint, "write", 1, "before"),
    "while files are flushed": (checkpoint, "_flush", 3, "before"),
    "before the folder is renamed": (checkpoint, "_flush", 9, "before"),
    "before old ones are removed": (checkpoint, "prune", 1, "before"),
}
"""What is called, the how-manieth call inside the step, and whether the process dies before or after it."""


def die_at(place: str, step: int) -> None:
    """Arrange for this process to be killed there."""
    owner, name, call, when = PLACES[place]
    plain: Callable[..., Any] = getattr(owner, name)
    begin = Trainer.step
    state = {"step": 0, "calls": 0}

    def counted(self: Trainer, stage: Any) -> bool:
        state.update(step=self.progress.step + 1, calls=0)
        return begin(self, stage)

    def deadly(*arguments: Any, **named: Any) -> Any:
        state["calls"] += 1
        due = state["step"] == step and state["calls"] == call
        if due and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*arguments, **named)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Trainer.step = counted  # type: ignore[method-assign]
    setattr(owner, name, deadly)


if __name__ == "__main__":
    where, when_step, run_file, out = sys.argv[1:]
    die_at(where, int(when_step))
    api.train(run_file, out=out)
