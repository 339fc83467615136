"""One optimiser step: weights over the whole step, gradients summed over micro-batches, clipping, AdamW.

It knows no algorithm's name: what is trained, the policy, a critic or both, follows from what the algorithm needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from groupwise.algorithms.contract import Algorithm, Loss
from groupwise.errors import NonFiniteLogprobError, TrainingError
from groupwise.models.critic import Critic
from groupwise.models.hidden import SharedPrompt
from groupwise.models.policy import Policy
from groupwise.packing import token_index
from groupwise.telemetry.metrics import merged
from groupwise.training.optimizer import Optimizer
from groupwise.training.split_groups import parts
from groupwise.types import Batch, Maximum, Mean, Metric, Total

UPDATED = "updated"
NO_SIGNAL = "no signal"


@dataclass(frozen=True)
class Outcome:
    """What one optimiser step did."""

    status: str
    """`updated`; `no signal` (nothing has a gradient: no update, no weight decay); or why it was skipped."""
    loss: float
    """The surrogate's value; the critic's loss where that alone is trained. With one update per rollout and centred
    advantages the surrogate is near 0 by construction."""
    grad_norm: float | None
    """Of the policy, before clipping."""
    learning_rate: float
    tokens_trained: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    coefficients: Tensor | None = field(default=None, compare=False)
    """[T] float32 on the batch's axis: the gradient coefficient of each token, see `Loss.coefficient`; 0 where there is
    no gradient, None where the step was skipped or no policy is trained."""

    @property
    def usable(self) -> bool:
        """Whether the step went as it should; a step without signal did."""
        return self.status in (UPDATED, NO_SIGNAL)


class Update:
    """The optimisers of one stage. `optimizer` is None where the policy is frozen."""

    def __init__(
        self,
        policy: Policy,
        optimizer: Optimizer | None,
        critic: Critic | None,
        critic_optimizer: Optimizer | None,
        micro_batch_tokens: int,
    ) -> None:
        self.policy, self.critic, self.micro_batch_tokens = policy, critic, micro_batch_tokens
        self.optimizers = {"policy": optimizer, "critic": critic_optimizer}
        self.active = {name: optimizer for name, optimizer in self.optimizers.items() if optimizer is not None}
        assert self.active, "a stage trains something"

    def step(self, algorithm: Algorithm, batch: Batch, index: int) -> Outcome:
        """Train on a credited batch; `index` is the 0-based step of the stage.

        Raises `TrainingError` where the loss reaches no trainable parameter.
        """
        batch = algorithm.weigh(batch)
        rate = next(iter(self.active.values())).learning_rate(index)
        completions = algorithm.signal(batch).nonzero()[:, 0].tolist()
        coefficients = None
        if self.optimizers["policy"] is not None:
            coefficients = torch.zeros(batch.token_ids.numel(), device=batch.token_ids.device)
        if not completions:
            return Outcome(NO_SIGNAL, 0.0, 0.0, rate, 0, coefficients=coefficients)
        self._clear()
        loss, metrics, tokens = 0.0, [], 0
        for chosen, micro_batch, prompt in parts(
            batch, completions, self.micro_batch_tokens, whole_groups=algorithm.needs.couples_groups
        ):
            try:
                value, coefficient, diagnostics = self._accumulate(algorithm, micro_batch, prompt)
            except NonFiniteLogprobError as error:
                return self._skipped(f"skipped: {error}", loss, rate)
            loss += value
            metrics.append(diagnostics)
            if coefficients is not None:
                found = torch.where(micro_batch.loss_mask, coefficient, 0.0)
                coefficients[token_index(batch, chosen)] = found.to(coefficients.dtype)
            tokens += int(micro_batch.loss_mask.sum())
        outcome = self._apply(loss, rate, index, tokens, merged(metrics))
        return replace(outcome, coefficients=coefficients) if outcome.usable else outcome

    def forward(
        self, algorithm: Algorithm, batch: Batch, prompt: SharedPrompt | None = None
    ) -> tuple[Loss, dict[str, Metric]]:
        """The loss of a weighted micro-batch, and how trainer and sampler compare on it."""
        metrics: dict[str, Metric] = {}
        log_probs = torch.zeros(batch.token_ids.numel(), device=batch.token_ids.device)
        if self.optimizers["policy"] is not None:
            log_probs, entropy = self.policy.forward.log_probs(batch, prompt)
            metrics |= _sampler_metrics(batch, log_probs.detach(), entropy)
        values = None
        if self.critic is not None:
            values = self.critic.values(batch, prompt, after=algorithm.needs.judges is not None)
        return algorithm.loss(batch, log_probs, values), metrics

    def _accumulate(
        self, algorithm: Algorithm, batch: Batch, prompt: SharedPrompt | None
    ) -> tuple[float, Tensor, dict[str, Metric]]:
        """Forward and backward of one micro-batch: the loss, its gradient coefficients, and metrics."""
        loss, metrics = self.forward(algorithm, batch, prompt)
        total = shown = loss.policy if self.optimizers["policy"] is not None else loss.policy.detach() * 0
        if loss.value is not None:
            total = total + loss.value
            metrics["value_loss"] = Total(float(loss.value.detach()))
            shown = shown if self.optimizers["policy"] is not None else loss.value
        if not total.requires_grad:
            raise TrainingError(
                "the loss reaches no trainable parameter", fix="train some weights: check model.lora.target_modules"
            )
        total.backward()
        return float(shown.detach()), loss.coefficient, metrics | dict(loss.metrics)

    def _apply(self, loss: float, rate: float, index: int, tokens: int, metrics: Mapping[str, float | None]) -> Outcome:
        """Clip and step, unless something isn't finite."""
        norms = {name: optimizer.clip() for name, optimizer in self.active.items()}
        bad = next(
            (f"the {name}'s gradient has norm {norm}" for name, norm in norms.items() if not math.isfinite(norm)), ""
        )
        if bad or not math.isfinite(loss):
            return self._skipped(f"skipped: {bad or f'the loss is {loss}'}", loss, rate)
        if not any(norms.values()):  # tied rewards at the reference itself: Adam would go on with its momentum
            self._clear()
            return Outcome(NO_SIGNAL, loss, 0.0, rate, tokens, metrics)
        for optimizer in self.active.values():
            optimizer.step(index)
        self._clear()
        extra = {"critic_grad_norm": norms["critic"]} if "critic" in norms else {}
        return Outcome(UPDATED, loss, norms.get("policy"), rate, tokens, {**metrics, **extra})

    def _skipped(self, status: str, loss: float, rate: float) -> Outcome:
        self._clear()
        return Outcome(status, loss, None, rate, 0)

    def _clear(self) -> None:
        for optimizer in self.active.values():
            optimizer.clear()


def per_token_values(
    batch: Batch,
    completions: Sequence[int],
    max_tokens: int,
    compute: Callable[[Batch, SharedPrompt | None], Tensor],
) -> Tensor:
    """[T]: what `compute` gives for the unmasked tokens of some completions, in micro-batches, without gradient."""
    result = torch.zeros(batch.token_ids.numel(), dtype=torch.float32, device=batch.token_ids.device)
    with torch.no_grad():
        for chosen, micro_batch, prompt in parts(batch, completions, max_tokens):
            where = token_index(batch, chosen)[micro_batch.loss_mask]
            result[where] = compute(micro_batch, prompt)[micro_batch.loss_mask].float()
    return result


def _sampler_metrics(batch: Batch, log_probs: Tensor, entropy: Tensor) -> dict[str, Metric]:
    """Entropy, and how far the sampler's log-probs are from those of the trainer for the same policy."""
    count = int(batch.loss_mask.sum())
    metrics: dict[str, Metric] = {"entropy": Mean(float(entropy.sum()), count)}
    if batch.sampler_log_probs is not None and count:
        same_policy = log_probs if batch.old_log_probs is None else batch.old_log_probs
        gap = (same_policy - batch.sampler_log_probs)[batch.loss_mask].abs().max()
        metrics["sampler_gap_max"] = Maximum(float(gap))
    return metrics
