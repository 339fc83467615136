"""Where a model runs and what it computes in."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from groupwise.errors import ModelError
from groupwise.models.settings import ModelSettings
from groupwise.planning import machine

BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""How Linux names the instructions of x86 (the first two) and ARM processors."""


def choose_device(settings: ModelSettings) -> torch.device:
    """The device asked for, or the best there is. Raises `ModelError` where it doesn't exist."""
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(settings.device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"model.device is {settings.device}, but torch sees {torch.cuda.device_count()} GPUs",
            fix='set model.device = "auto", or install a build of torch for your GPU',
        )
    return device


def choose_compute_dtype(settings: ModelSettings, device: torch.device) -> tuple[torch.dtype, str]:
    """The dtype of the forward pass, and a sentence that says so.

    Raises `ModelError` where bfloat16 is asked of a device that would have to emulate it.
    """
    has_bfloat16 = device_has_bfloat16(device)
    if settings.dtype == "bfloat16" and not has_bfloat16:
        raise ModelError(
            f"model.dtype is bfloat16, but {describe(device)} has no bfloat16 instructions",
            fix='set model.dtype = "float32" or "auto"',
        )
    if settings.dtype == "float32" or not has_bfloat16:
        why = "as asked" if settings.dtype == "float32" else "it has no bfloat16 instructions"
        return torch.float32, f"computing in float32 on {describe(device)} ({why})"
    why = "as asked" if settings.dtype == "bfloat16" else "chosen because the device has it"
    return torch.bfloat16, f"computing in bfloat16 on {describe(device)} ({why}); weights stay in float32"


def device_has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(BFLOAT16_FLAGS & cpu_flags())


def cpu_flags() -> set[str]:
    """The processor's features as Linux lists them; empty on other systems."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return set()
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def free_memory(device: torch.device) -> int:
    """Bytes that can still be taken where the model will be."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else machine.free_memory()


def describe(device: torch.device) -> str:
    """A GPU's name, or the kind of CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"this CPU ({platform.machine()})"
