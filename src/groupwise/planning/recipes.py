"""Bytes per parameter of a network, by how it is trained and how frozen weights are stored.

recipe            weight  gradient  master  moments   in all
seed                 2        -        -       8         10    no gradients: what a table of "weights and AdamW" has
bf16                 2        2        -       8         12
mixed                2        2        4       8         16    ZeRO's accounting (arXiv:1910.02054), K = 12
mixed-fp32-grads     2        4        4       8         18
fsdp-fp32            4        4        -       8         16    and rounded copies of what is being computed with
adamw-8bit           2        2        4       2.03      10.03
fp32                 4        4        -       8         16    this library's own trainer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupwise.errors import RunFileError


@dataclass(frozen=True)
class Storage:
    """Bytes of a weight that isn't trained."""

    matrices: float
    """In the layers' matrices."""
    rest: float
    """In embeddings, output layer and norms."""

    def size(self, parameters: int, matrices: int = 0) -> float:
        """Bytes of so many parameters, `matrices` of them in the layers' matrices."""
        return self.matrices * matrices + self.rest * (parameters - matrices)


STORAGES: Mapping[str, Storage] = {
    "fp32": Storage(4, 4),
    "bf16": Storage(2, 2),
    "fp8": Storage(1, 2),
    "nf4": Storage((4 + 0.127) / 8, 2),
}
"""By name. nf4 has 4 bits and 0.127 of scales that are quantised again (QLoRA, arXiv:2305.14314); bitsandbytes leaves
all but linear layers as they are."""

BF16 = STORAGES["bf16"]


@dataclass(frozen=True)
class Recipe:
    """Bytes per parameter of a network that is trained."""

    weight: float
    gradient: float
    master: float
    """A float32 copy beside rounded weights."""
    moments: float
    frozen: Storage = BF16
    """How networks are stored that aren't trained."""

    def network(self, parameters: int, trained: int, matrices: int = 0, base: Storage | None = None) -> dict[str, int]:
        """Components of a network of which `trained` parameters are trained.

        The others, `matrices` of them in the layers' matrices, are stored as `base` says, by default as `frozen` does.
        """
        held = parameters - trained
        size = self.weight * trained + (base or self.frozen).size(held, min(matrices, held))
        parts = {"weights": round(size)}
        return parts | {name: round(size * trained) for name, size in self.state.items() if size and trained}

    @property
    def state(self) -> dict[str, float]:
        """Bytes per trained parameter beside the weight."""
        return {"gradients": self.gradient, "master weights": self.master, "optimiser": self.moments}


RECIPES: Mapping[str, Recipe] = {
    "seed": Recipe(2, 0, 0, 8),
    "bf16": Recipe(2, 2, 0, 8),
    "mixed": Recipe(2, 2, 4, 8),
    "mixed-fp32-grads": Recipe(2, 4, 4, 8),
    "fsdp-fp32": Recipe(4, 4, 0, 8),
    "adamw-8bit": Recipe(2, 2, 4, 2 * (1 + 4 / 256)),
    "fp32": Recipe(4, 4, 0, 8, frozen=STORAGES["fp32"]),
}
"""By name. 8-bit moments have one float32 scale per block of 256 (Dettmers et al., arXiv:2110.02861)."""

OURS = RECIPES["fp32"]
"""float32 throughout, with AdamW's two moments: 16 bytes per trained parameter, 4 per frozen one."""


def recipe(name: str) -> Recipe:
    """The recipe of this name. Raises `RunFileError`."""
    if name not in RECIPES:
        raise RunFileError(f"accounting {name!r} is unknown", fix=f"use one of {', '.join(RECIPES)}")
    return RECIPES[name]


def storage(name: str) -> Storage:
    """The storage of this name. Raises `RunFileError`."""
    if name not in STORAGES:
        raise RunFileError(f"storage of frozen weights {name!r} is unknown", fix=f"use one of {', '.join(STORAGES)}")
    return STORAGES[name]
