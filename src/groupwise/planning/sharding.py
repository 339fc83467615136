"""How training is spread over devices, and what each of them then holds.

    stage 0    everything on every rank
    stage 1    master weights and moments in shards
    stage 2    gradients too                          FSDP's SHARD_GRAD_OP
    stage 3    weights too, gathered when needed      FSDP's FULL_SHARD; HYBRID_SHARD has the ranks of one node

(ZeRO, Rajbhandari et al., arXiv:1910.02054.) Tensor parallelism divides everything before that, and activations and
logits too, which takes sequence parallelism between the matrices for granted.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupwise.errors import RunFileError
from groupwise.planning.recipes import Recipe
from groupwise.planning.shape import Shape

SHARDED_FROM = {"optimiser": 1, "master weights": 1, "gradients": 2, "weights": 3}
"""From which stage on a component is in shards."""


@dataclass(frozen=True)
class Sharding:
    """The layout of a training job; the default is one device. Raises `RunFileError` where it is impossible."""

    ranks: int = 1
    """Devices in all."""
    stage: int = 3
    """Of ZeRO, 0 to 3."""
    tensor_parallel: int = 1
    """Devices that share each matrix."""
    prefetched: int = 1
    """Layers that are gathered ahead of the one that is computed with, in stage 3."""

    def __post_init__(self) -> None:
        for name in ("ranks", "tensor_parallel"):
            if (value := getattr(self, name)) < 1:
                raise RunFileError(f"{name} = {value} is less than 1", fix="give the number of devices")
        if self.stage not in range(4):
            raise RunFileError(f"stage = {self.stage} isn't one of ZeRO's", fix="use 0, 1, 2 or 3")
        if self.ranks % self.tensor_parallel:
            raise RunFileError(
                f"{self.ranks} ranks can't be divided by tensor_parallel = {self.tensor_parallel}",
                fix="let tensor_parallel divide the number of ranks",
            )

    def check(self, shape: Shape) -> None:
        """Raises `RunFileError` where a device would get a part of a head."""
        check_heads(shape, self.tensor_parallel)

    @property
    def shards(self) -> int:
        """Ranks that what is in shards is divided over."""
        return self.ranks // self.tensor_parallel

    def per_device(self, size: float, component: str) -> float:
        """Bytes on one device of a component, `weights`, `gradients`, `master weights` or `optimiser`, that has `size`
        bytes in all."""
        size /= self.tensor_parallel
        return size / self.shards if self.stage >= SHARDED_FROM[component] else size

    @property
    def gathers(self) -> bool:
        """Whether weights are in shards and have to be gathered."""
        return self.stage == 3 and self.shards > 1

    def gathered(self, shape: Shape, width: float) -> dict[str, int]:
        """What stage 3 gathers for one pass over a model, with `width` bytes per parameter: layers, and what FSDP keeps
        in its root. Nothing otherwise."""
        if not self.gathers:
            return {}
        layers = min(1 + self.prefetched, shape.layers)
        return {
            "gathered layers": round(width * layers * shape.layer_parameters / self.tensor_parallel),
            "gathered embedding and output layer": round(width * shape.root_parameters / self.tensor_parallel),
        }

    def bucket(self, shape: Shape, width: float, trained: float) -> dict[str, int]:
        """One layer's gradients before each rank keeps its share of them, with `width` bytes each; `trained` is the
        share of parameters that have one. Nothing where gradients aren't in shards."""
        if self.stage < 2 or self.shards == 1:
            return {}
        return {"gradients of one layer": round(width * shape.layer_parameters * trained / self.tensor_parallel)}

    def rounded(self, recipe: Recipe, shape: Shape, compute: int) -> dict[str, int]:
        """The second copy of matrices that are computed with in fewer bytes than they are kept in; none where they are
        gathered so."""
        if compute >= recipe.weight or self.gathers:
            return {}
        return {"rounded weights": round(compute * shape.linear_parameters / self.tensor_parallel)}


def check_heads(shape: Shape, tensor_parallel: int) -> None:
    """Raises `RunFileError` where a device would get a part of a head."""
    if shape.heads % tensor_parallel:
        raise RunFileError(
            f"{shape.heads} heads can't be divided over tensor_parallel = {tensor_parallel}",
            fix=f"let tensor_parallel divide {shape.heads}",
        )
