"""Devices by name: how much they hold, and how fast they compute, read and talk. Data sheets, nothing measured.

Memory is what the label says, in units of 1e9 bytes: a program can have about that much, for drivers take what labels
leave out. Floating point operations are dense ones, with sums in float32. What programs reach of all this is another
number: see `groupwise.planning.rates.Efficiency`. This machine's own rates come from
`groupwise.training.calibration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from groupwise.errors import RunFileError

THIS_MACHINE = "cpu"
"""The name that stands for the machine in hand, which is calibrated and not looked up."""


@dataclass(frozen=True)
class Device:
    """One accelerator of a kind."""

    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes per second between memory and processor."""
    operations: Mapping[int, float]
    """Floating point operations per second of matrix products, by bytes of a number: 2 bfloat16, 4 float32."""
    link: float
    """Bytes per second that one device sends to the others of its machine (half of what sheets give for both ways)."""


def _device(name: str, *, gigabytes: float, bandwidth: float, bfloat16: float, float32: float, link: float) -> Device:
    """bandwidth in GB/s, TFLOP/s in bfloat16 and float32, link in GB/s one way."""
    operations = {2: bfloat16 * 1e12, 4: float32 * 1e12}
    return Device(name, gigabytes * 1e9, bandwidth * 1e9, operations, link * 1e9)


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        # NVIDIA H200 data sheet, SXM: 1,979 TFLOP/s with sparsity, NVLink 900 GB/s both ways
        _device("h200", gigabytes=141, bandwidth=4800, bfloat16=989, float32=67, link=450),
        # NVIDIA H100 data sheet, SXM5
        _device("h100", gigabytes=80, bandwidth=3350, bfloat16=989, float32=67, link=450),
        # NVIDIA H20 product brief, as resellers print it
        _device("h20", gigabytes=96, bandwidth=4000, bfloat16=148, float32=44, link=450),
        # NVIDIA A100 data sheet, SXM 80 GB: NVLink 600 GB/s both ways
        _device("a100-80", gigabytes=80, bandwidth=2039, bfloat16=312, float32=19.5, link=300),
        # NVIDIA A100 data sheet, SXM 40 GB
        _device("a100-40", gigabytes=40, bandwidth=1555, bfloat16=312, float32=19.5, link=300),
        # NVIDIA L40S data sheet; of 48 GB, error correction takes a little; PCIe 4.0 x16
        _device("l40s", gigabytes=47.6, bandwidth=864, bfloat16=362, float32=91.6, link=32),
        # NVIDIA Ada whitepaper, appendix: GeForce RTX 4090; PCIe 4.0 x16
        _device("4090", gigabytes=24, bandwidth=1008, bfloat16=165.2, float32=82.6, link=32),
        # NVIDIA GA102 whitepaper: GeForce RTX 3090; PCIe 4.0 x16
        _device("3090", gigabytes=24, bandwidth=936, bfloat16=71, float32=35.6, link=32),
    )
}
"""By the name that `--gpu` takes."""


def find(name: str) -> Device:
    """The device of this name, whatever its case. Raises `RunFileError` with the nearest names for an unknown one.

    `THIS_MACHINE` isn't here: who asks for it calibrates.
    """
    asked = name.strip().lower()
    if asked in DEVICES:
        return DEVICES[asked]
    known = [*DEVICES, THIS_MACHINE]
    near = [other for other in known if other.split("-")[0] in asked] or get_close_matches(
        asked, known, n=1, cutoff=0.5
    )
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise RunFileError(f"no device is called {name!r}", fix=f"{guess}there are {', '.join(known)}")
