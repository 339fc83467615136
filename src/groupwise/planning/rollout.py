"""Bytes that sampling takes: keys and values, and the weights that an engine decodes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groupwise.errors import RunFileError
from groupwise.planning.activations import FLOAT32, FULL, Precision, logits
from groupwise.planning.recipes import BF16, Storage
from groupwise.planning.shape import Shape
from groupwise.planning.sharding import check_heads

PACKED_FROM = 2**16
"""Numbers in a matrix from which on it is packed for decoding."""

PAGE = 16
"""Tokens whose keys and values engines with paged caches hold together."""


def kv_bytes(shape: Shape, compute: float, tensor_parallel: int = 1) -> int:
    """Bytes of one token's keys and values over all layers on one device: 2 L K compute.

    Devices share heads of keys until each has one; the vector of latent attention is on all of them.
    """
    split = 1 if shape.latents else min(tensor_parallel, shape.kv_heads)
    return round(shape.layers * shape.cached * compute / split)


@dataclass(frozen=True)
class Rollout:
    """What one engine decodes at the same time."""

    prompt: int
    """Tokens of the longest prompt."""
    completion: int
    """Tokens of the longest completion: every row has room for it."""
    samples: int
    rows: int
    """Most rows at a time."""

    @property
    def tokens(self) -> int:
        """Places for keys and values: a prompt once per group, and every row's own."""
        return self.places(1)

    def places(self, page: int) -> int:
        """The same in pages of so many tokens."""
        prompt, completion = (-(-length // page) * page for length in (self.prompt, self.completion))
        return -(-self.rows // self.samples) * prompt + self.rows * completion


@dataclass(frozen=True)
class Engine:
    """Where rollouts are sampled; the default is this library's own, in the trainer's process, with its weights."""

    place: Literal["in process", "colocated", "apart"] = "in process"
    """`colocated`: another system on the trainer's devices; `apart`: on devices of its own."""
    devices: int = 1
    """Of all engines."""
    tensor_parallel: int = 1
    """Devices that share one copy of the weights."""
    utilisation: float = 0.9
    """The share of a device's memory that an engine with paged caches may take."""
    storage: Storage = BF16
    """Of its copy of the weights."""
    kv: float = 2
    """Bytes of a number in its cache: 2, or 1 in fp8."""
    packs: bool = True
    """In process: weights are packed for decoding, which CPUs do in float32."""
    shares_weights: bool = False
    """Colocated, but decoding with the trainer's own weights."""
    offloads: bool = True
    """Colocated: what the trainer holds is in the host's memory during rollouts."""

    def __post_init__(self) -> None:
        if self.tensor_parallel < 1 or self.devices < 1 or self.devices % self.tensor_parallel:
            raise RunFileError(
                f"{self.devices} devices of engines can't be divided by tensor_parallel = {self.tensor_parallel}",
                fix="let tensor_parallel divide the number of devices",
            )
        if not 0 < self.utilisation <= 1:
            raise RunFileError(f"utilisation = {self.utilisation:g} is no share of memory", fix="use more than 0, to 1")

    def check(self, shape: Shape) -> None:
        """Raises `RunFileError` where a device would get a part of a head."""
        check_heads(shape, self.tensor_parallel)

    @property
    def count(self) -> int:
        """Engines, each with a copy of the weights."""
        return self.devices // self.tensor_parallel

    def weights(self, parameters: int, matrices: int) -> int:
        """Bytes on one device of its copy of the weights; 0 where it has none."""
        if self.place == "in process" or self.shares_weights:
            return 0
        return round(self.storage.size(parameters, matrices) / self.tensor_parallel)

    def capacity(self, shape: Shape, memory: float, held: float) -> int:
        """Tokens whose keys and values find room on devices with `memory` bytes of which weights hold `held`."""
        room = self.utilisation * memory - held
        return max(0, int(room // kv_bytes(shape, self.kv, self.tensor_parallel)))

    def rows(self, shape: Shape, rollout: Rollout, memory: float, held: float) -> int:
        """Rows of a rollout that are decoded at a time when all are as long as can be, at most those asked for."""
        capacity = self.capacity(shape, memory, held)
        low, high = 0, rollout.rows
        while low < high:
            middle = (low + high + 1) // 2
            fits = Rollout(rollout.prompt, rollout.completion, rollout.samples, middle).places(PAGE) <= capacity
            low, high = (middle, high) if fits else (low, middle - 1)
        return low


def decoding(shape: Shape, rollout: Rollout, precision: Precision, packs: bool) -> dict[str, int]:
    """What the own engine adds: the cache, in float32 the packed copy of the weights where it packs, and the higher of
    two moments: rows that leave or enter, when a second cache is made before the first goes; or a draw, which holds
    logits as they are, scaled, their exponentials, those in blocks, and one on its way."""
    cache = rollout.tokens * kv_bytes(shape, precision.compute)
    moments = {"keys and values moved": cache, "logits": logits(shape, rollout.rows, 5)}
    height = max(moments, key=lambda name: moments[name])
    copies = FULL if packs and precision == FLOAT32 else 0
    packed = copies * shape.parameters_in_linear_layers(at_least=PACKED_FROM)
    return {"keys and values": cache, "packed weights": packed, height: moments[height]}


def serving(shape: Shape, rollout: Rollout, engine: Engine, memory: float | None, held: float) -> dict[str, int]:
    """What an engine with a paged cache adds on one device that holds `held` bytes already: room for all rows, or where
    that is more than it may take as much as it may, and at least for one row, the others waiting."""
    token = kv_bytes(shape, engine.kv, engine.tensor_parallel)
    places = rollout.places(PAGE)
    if memory is not None:
        one = Rollout(rollout.prompt, rollout.completion, 1, 1).places(PAGE)
        places = min(places, max(one, engine.capacity(shape, memory, held) // PAGE * PAGE))
    drawn = logits(shape, rollout.rows, 2) // engine.tensor_parallel
    return {"keys and values": places * token, "logits": drawn}
