"""Gradient checkpointing: each decoder layer is computed again in the backward pass (Chen et al.,
arXiv:1604.06174).

transformers' own switch works only in training mode, which would turn dropout on, and refuses caches. This
one depends on nothing but whether a gradient is being recorded, so sampling and reference passes run as they
always do.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from groupwise.errors import ModelError


def recompute_layers(model: PreTrainedModel) -> None:
    """Make every decoder layer of the model keep only its input for the backward pass.

    Raises `ModelError` for architectures whose layers can't be told.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ModelError(
            f"model of type {type(model).__name__} does not support gradient checkpointing",
            fix="set model.gradient_checkpointing = false",
        )
    for layer in layers:
        # a bound method, so that a deep copy of the model is bound to the copy
        layer.forward = types.MethodType(_recomputed, layer)


def _recomputed(layer: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    forward = type(layer).forward
    if not torch.is_grad_enabled():
        return forward(layer, *args, **kwargs)
    return checkpoint(forward, layer, *args, use_reentrant=False, **kwargs)
