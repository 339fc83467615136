"""One optimiser step: weights over the whole step, gradients summed over micro-batches, clipping, AdamW.

The trainer's only place that knows of optimisers. It knows no algorithm's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from groupwise.algorithms.contract import Algorithm
from groupwise.errors import NonFiniteLogprobError, TrainingError
from groupwise.models.loading import trainable_parameters
from groupwise.models.policy import Policy
from groupwise.packing import micro_batches, take, token_index
from groupwise.run import OptimizerSettings
from groupwise.telemetry.metrics import merged
from groupwise.types import Batch, Maximum, Mean, Metric

UPDATED = "updated"
NO_SIGNAL = "no signal"


@dataclass(frozen=True)
class Outcome:
    """What one optimiser step did."""

    status: str
    """`updated`; `no signal` (nothing has a gradient: no update, no weight decay); or why it was skipped."""
    loss: float
    """The surrogate's value. With one update per rollout and centred advantages it is near 0 by construction."""
    grad_norm: float | None
    """Before clipping."""
    learning_rate: float
    tokens_trained: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether the step went as it should; a step without signal did."""
        return self.status in (UPDATED, NO_SIGNAL)


class Update:
    """The optimiser of one stage."""

    def __init__(self, policy: Policy, algorithm: Algorithm, settings: OptimizerSettings, steps: int) -> None:
        self.policy, self.algorithm, self.settings, self.steps = policy, algorithm, settings, steps
        self.parameters = list(trainable_parameters(policy.loaded).values())
        matrices = [parameter for parameter in self.parameters if parameter.ndim > 1]
        vectors = [parameter for parameter in self.parameters if parameter.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            fused=True,
        )

    def step(self, batch: Batch, index: int) -> Outcome:
        """Train on a credited batch; `index` is the 0-based step of the stage.

        Raises `TrainingError` where the loss reaches no trainable parameter.
        """
        batch = replace(batch, token_weights=self.algorithm.weigh(batch))
        rate = self.learning_rate(index)
        completions = self.algorithm.signal(batch).nonzero()[:, 0].tolist()
        if not completions:
            return Outcome(NO_SIGNAL, 0.0, 0.0, rate, 0)
        self.optimizer.zero_grad(set_to_none=True)
        loss, metrics, tokens = 0.0, [], 0
        for part in micro_batches(batch, completions, self.settings.micro_batch_tokens):
            micro_batch = take(batch, part)
            try:
                value, diagnostics = self._accumulate(micro_batch)
            except NonFiniteLogprobError as error:
                return self._skipped(f"skipped: {error}", loss, rate)
            loss += value
            metrics.append(diagnostics)
            tokens += int(micro_batch.loss_mask.sum())
        return self._apply(loss, rate, tokens, merged(metrics))

    def learning_rate(self, index: int) -> float:
        """The rate of a 0-based step: linear warm-up, then the schedule."""
        settings, warmup = self.settings, self.settings.warmup_steps
        if index < warmup:
            return settings.learning_rate * (index + 1) / warmup
        progress = (index - warmup) / max(1, self.steps - warmup)
        factor = {"constant": 1.0, "linear": 1 - progress, "cosine": 0.5 * (1 + math.cos(math.pi * progress))}
        return settings.learning_rate * factor[settings.schedule]

    def state(self) -> dict[str, Any]:
        """The optimiser's state, for a checkpoint."""
        return self.optimizer.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with the optimiser's state from a checkpoint."""
        self.optimizer.load_state_dict(state)

    def _accumulate(self, batch: Batch) -> tuple[float, dict[str, Metric]]:
        """Forward and backward of one micro-batch."""
        log_probs, entropy = self.policy.forward.log_probs(batch)
        loss = self.algorithm.loss(batch, log_probs)
        if not loss.policy.requires_grad:
            raise TrainingError(
                "the loss reaches no trainable parameter", fix="train some weights: check model.lora.target_modules"
            )
        loss.policy.backward()
        mask, count = batch.loss_mask, int(batch.loss_mask.sum())
        metrics: dict[str, Metric] = dict(loss.metrics)
        metrics["entropy"] = Mean(float(entropy.sum()), count)
        if batch.sampler_log_probs is not None and count:
            gap = (log_probs.detach() - batch.sampler_log_probs)[mask].abs().max()
            metrics["sampler_gap_max"] = Maximum(float(gap))
        return float(loss.policy.detach()), metrics

    def _apply(self, loss: float, rate: float, tokens: int, metrics: Mapping[str, float | None]) -> Outcome:
        """Clip and step, unless something isn't finite."""
        if all(parameter.grad is None for parameter in self.parameters):
            raise TrainingError("no trainable parameter got a gradient", fix="check model.lora.target_modules")
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm))
        if not math.isfinite(norm) or not math.isfinite(loss):
            what = f"the gradient's norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            return self._skipped(f"skipped: {what}", loss, rate)
        if norm == 0:  # tied rewards at the reference itself: Adam would go on with its momentum
            self.optimizer.zero_grad(set_to_none=True)
            return Outcome(NO_SIGNAL, loss, norm, rate, tokens, metrics)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Outcome(UPDATED, loss, norm, rate, tokens, metrics)

    def _skipped(self, status: str, loss: float, rate: float) -> Outcome:
        self.optimizer.zero_grad(set_to_none=True)
        return Outcome(status, loss, None, rate, 0)


def log_probs_of(policy: Policy, batch: Batch, completions: Sequence[int], max_tokens: int) -> torch.Tensor:
    """[T] log-probs of some completions under the weights that the policy's model holds now, without gradient."""
    result = torch.zeros(batch.token_ids.numel(), dtype=torch.float32, device=batch.token_ids.device)
    with torch.no_grad():
        for part in micro_batches(batch, completions, max_tokens):
            micro_batch = take(batch, part)
            where = token_index(batch, part)[micro_batch.loss_mask]
            result[where] = policy.forward.log_probs(micro_batch)[0][micro_batch.loss_mask].float()
    return result
