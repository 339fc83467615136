"""What a run's numbers depend on beside its file: threads, device, precision, versions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import torch

from groupwise.models.policy import Policy
from groupwise.models.settings import ModelSettings


def describe(policy: Policy) -> dict[str, Any]:
    """What this process computes with."""
    loaded = policy.loaded
    return {
        "groupwise": version("groupwise"),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name(loaded.device) if loaded.device.type == "cuda" else "cpu",
        "compute_dtype": str(loaded.compute_dtype).removeprefix("torch."),
        "weights_dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "gradient_checkpointing": loaded.checkpointing,
    }


def use_threads(recorded: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Compute with as many threads as the run began with: sums are rounded in another order with another number."""
    threads = recorded["threads"]
    if threads != torch.get_num_threads():
        say(f"using {threads} threads as this run did before, not {torch.get_num_threads()}")
        torch.set_num_threads(threads)


def as_before(settings: ModelSettings, recorded: Mapping[str, Any]) -> ModelSettings:
    """The model's settings with what was chosen by the memory that was free when the run began, not by today's."""
    if settings.gradient_checkpointing != "auto":
        return settings
    return settings.model_copy(update={"gradient_checkpointing": recorded["gradient_checkpointing"]})


def compare(recorded: Mapping[str, Any], now: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Announce what differs from when the run began: from here on its numbers may differ in the last bits."""
    changed = [f"{key} {recorded.get(key)} -> {now[key]}" for key in now if recorded.get(key) != now[key]]
    if changed:
        say(f"resumed under other conditions, so not bit for bit: {', '.join(changed)}")
