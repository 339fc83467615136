"""Linear layers on CPUs: torch's own take MKL's products, which oneDNN outdoes from a few rows on.

A model's `torch.nn.Linear` layers become `Linear`; their weights, names and results stay (to rounding in float32). Two
things differ. Products in float32 go through oneDNN, forward and for the input's gradient. And while many tokens are
decoded with the same weights, those are held a second time in the order in which oneDNN reads them: at 8 to 32 rows,
where a decoding step spends its time, that makes a product 1.5 to 2.4 times as fast. Without oneDNN, in any other
precision and on any other device, a `Linear` is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available()


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, packed: Tensor | None = None) -> Tensor:
    """x [..., i], weight [o, i], bias [o] -> x @ weight.T + bias [..., o], without gradient.

    packed: what `packed_weight` made of the weight.
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight if packed is None else packed, bias, "none", [], "")


def packed_weight(weight: Tensor, rows: int) -> Tensor:
    """The weight [o, i] as oneDNN likes to read it for products with `rows` rows; only `product` can use it."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)


def applies(x: Tensor, weight: Tensor) -> bool:
    """Whether `product` is there for these: float32 on a CPU, with no automatic cast to another precision."""
    return _has_products(weight) and x.dtype == weight.dtype and x.numel() > 0 and not torch.is_autocast_enabled("cpu")


def _has_products(weight: Tensor) -> bool:
    return ONEDNN and weight.dtype == torch.float32 and weight.device.type == "cpu"


class Linear(nn.Linear):
    """`torch.nn.Linear` by way of `product` where that applies."""

    packed: Tensor | None = None
    """The weight once more, while decoding."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., i] -> [..., o]."""
        if not applies(input, self.weight):
            return super().forward(input)
        if not torch.is_grad_enabled():
            return product(input, self.weight, self.bias, self.packed)
        return _Product.apply(input, self.weight, self.bias)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            product(grad, weight.t()) if needs_x else None,
            torch.mm(rows.t(), x.flatten(0, -2)) if needs_weight else None,
            rows.sum(0) if needs_bias else None,
        )


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
            if layer.packed is None and _has_products(layer.weight):
                layer.packed = packed_weight(layer.weight, rows)
