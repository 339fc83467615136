"""Gradient checkpointing: each decoder layer is computed again in the backward pass (Chen et al.,
arXiv:1604.06174).

transformers' own switch works only in training mode, which would turn dropout on, and refuses caches. This
one depends on nothing but whether a gradient is being recorded, so sampling and reference passes run as they
always do.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from groupwise.errors import ModelError
from groupwise.planning.activations import BFLOAT16, FLOAT32
from groupwise.planning.checkpointing import Demand, choose
from groupwise.planning.shape import Shape


def decide(
    setting: bool | Literal["auto"],
    model: PreTrainedModel,
    compute_dtype: torch.dtype,
    demands: Sequence[Demand],
    free: int,
) -> tuple[bool, list[str]]:
    """Whether to recompute layers, and what the user should know of that: as asked, or where `demands` need it.

    `free` bytes were there before the model's weights were read. Models whose layers can't be told never recompute by
    themselves.
    """
    if setting != "auto":
        return setting, []
    if not demands or not _layers(model):
        return False, []
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    total, trained = sum(size for size, _ in sizes), sum(size for size, needed in sizes if needed)
    precision = FLOAT32 if compute_dtype == torch.float32 else BFLOAT16
    shape = Shape.of(model.config)
    choice = choose([demand.workload(shape, total, trained, precision) for demand in demands], free)
    return choice.checkpointing, [choice.sentence]


def recompute_layers(model: PreTrainedModel) -> None:
    """Make every decoder layer of the model keep only its input for the backward pass.

    Raises `ModelError` for architectures whose layers can't be told.
    """
    layers = _layers(model)
    if not layers:
        raise ModelError(
            f"model of type {type(model).__name__} does not support gradient checkpointing",
            fix="set model.gradient_checkpointing = false",
        )
    for layer in layers:
        # a bound method, so that a deep copy of the model is bound to the copy
        layer.forward = types.MethodType(_recomputed, layer)


def _layers(model: PreTrainedModel) -> list[GradientCheckpointingLayer]:
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def _recomputed(layer: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    forward = type(layer).forward
    if not torch.is_grad_enabled():
        return forward(layer, *args, **kwargs)
    return checkpoint(forward, layer, *args, use_reentrant=False, **kwargs)
