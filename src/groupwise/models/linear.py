"""Products of few rows on CPUs: torch's own take MKL's kernels, which oneDNN outdoes there.

A model's `torch.nn.Linear` layers become `Linear`; weights, names and results stay (to rounding in float32). While
tokens are decoded its products go through oneDNN, and once many have been, the weights are held a second time in the
order in which oneDNN reads them: at 8 to 32 rows that makes a product 1.5 to 2.4 times as fast. Training, other
precisions, other devices and CPUs without oneDNN have torch's products.

oneDNN keeps a compiled kernel, a third of a megabyte, for each shape that it meets. Rows are therefore padded to a few
sizes, and matrices that a cache holds don't take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available()

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
"""Rows that a product really has; those in between are padded."""

DECODED = 64
"""Rows above which a layer's product is torch's own."""

SMALLEST = 2**16
"""Numbers in a matrix below which it is torch's own."""


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether `product` is there for x [..., i] and weight [o, i] and gains something: float32 on a CPU, with no
    automatic cast to another precision, and not too many rows or too small a matrix."""
    rows = x.numel() // max(1, x.shape[-1])
    return (
        _packable(weight) and x.dtype == weight.dtype and 0 < rows <= SIZES[-1] and not torch.is_autocast_enabled("cpu")
    )


def _packable(weight: Tensor) -> bool:
    return ONEDNN and weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.numel() >= SMALLEST


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, packed: Tensor | None = None) -> Tensor:
    """x [..., i], weight [o, i], bias [o] -> x @ weight.T + bias [..., o], without gradient.

    packed: what `packed_weight` made of the weight.
    """
    rows = x.reshape(-1, x.shape[-1])
    size = next(size for size in SIZES if size >= len(rows))
    padded = F.pad(rows, (0, 0, 0, size - len(rows))) if size > len(rows) else rows
    result = torch.ops.mkldnn._linear_pointwise(padded, weight if packed is None else packed, bias, "none", [], "")
    return result[: len(rows)].view(*x.shape[:-1], -1)


def packed_weight(weight: Tensor, rows: int) -> Tensor:
    """The weight [o, i] as oneDNN likes to read it for products with `rows` rows; only `product` can use it."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)


class Linear(nn.Linear):
    """`torch.nn.Linear` by way of `product` where a few rows have no gradient."""

    packed: Tensor | None = None
    """The weight once more, while decoding."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., i] -> [..., o]."""
        few = input.numel() <= DECODED * self.in_features
        if torch.is_grad_enabled() or not few or not applies(input, self.weight):
            return super().forward(input)
        return product(input, self.weight, self.bias, self.packed)


def use_fast_products(model: nn.Module) -> None:
    """Make the model's linear layers `Linear`, those inside adapters included; layers of other classes stay."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear


class PackedWeights:
    """The packed copies of a model's weights: made at most once, given back at the end of `holding`."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = [module for module in model.modules() if isinstance(module, Linear)]

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Weights that are packed inside are given back at the end. They must not change inside."""
        try:
            yield
        finally:
            for layer in self._layers:
                layer.packed = None

    def pack(self, rows: int) -> None:
        """Pack what isn't packed yet, for products with about `rows` rows."""
        for layer in self._layers:
            if layer.packed is None and _packable(layer.weight):
                layer.packed = packed_weight(layer.weight, rows)
