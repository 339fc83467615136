"""AdamW with a schedule and clipping: what the policy and the critic each have one of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import Parameter

from groupwise.errors import TrainingError
from groupwise.run import OptimizerSettings


class Optimizer:
    """The optimiser of one network over one stage. Weight decay is decoupled, and on matrices only."""

    def __init__(
        self, parameters: Iterable[Parameter], settings: OptimizerSettings, learning_rate: float, steps: int
    ) -> None:
        self.settings, self.base, self.steps = settings, learning_rate, steps
        self.parameters = list(parameters)
        matrices = [parameter for parameter in self.parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in self.parameters if parameter.ndim <= 1]
        self.adamw = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            fused=True,
        )

    def learning_rate(self, index: int) -> float:
        """The rate of a 0-based step: linear warm-up, then the schedule."""
        settings, warmup = self.settings, self.settings.warmup_steps
        if index < warmup:
            return self.base * (index + 1) / warmup
        progress = (index - warmup) / max(1, self.steps - warmup)
        factor = {"constant": 1.0, "linear": 1 - progress, "cosine": 0.5 * (1 + math.cos(math.pi * progress))}
        return self.base * factor[settings.schedule]

    def clip(self) -> float:
        """Clip the gradient; its norm before. Raises `TrainingError` where no parameter got a gradient."""
        if all(parameter.grad is None for parameter in self.parameters):
            raise TrainingError("no trainable parameter got a gradient", fix="check model.lora.target_modules")
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm))

    def step(self, index: int) -> None:
        """Move the parameters."""
        for group in self.adamw.param_groups:
            group["lr"] = self.learning_rate(index)
        self.adamw.step()

    def clear(self) -> None:
        """Forget the gradient."""
        self.adamw.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return self.adamw.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self.adamw.load_state_dict(state)
