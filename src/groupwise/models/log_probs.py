"""Per-token log-probs and entropies from hidden states, without ever holding a [T, V] tensor.

One kernel under every loss: rows go through the output layer in chunks, forward keeps each row's log-sum-exp and the
last chunk's logits, and backward computes the other chunks' again. The peak is about two chunks of logits, whatever the
number of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groupwise.models import linear

CHUNK_ROWS = 256
"""Rows of logits in memory at a time."""


@dataclass(frozen=True)
class Head:
    """The output layer of a causal LM: logits = softcap(scale * (hidden @ weight.T + bias))."""

    weight: Tensor  # [V, h]
    bias: Tensor | None  # [V]
    scale: float
    softcap: float | None
    packed: Tensor | None = None
    """The weight once more, as `models.linear` packs it for decoding."""

    def logits(self, hidden: Tensor) -> Tensor:
        """[n, h] -> [n, V] in float32 or better."""
        dtype = torch.promote_types(self.weight.dtype, torch.float32)
        hidden, weight = hidden.to(dtype), self.weight.to(dtype)
        if linear.applies(hidden, weight):
            logits = linear.product(hidden, weight, packed=self.packed)
        else:
            logits = hidden @ weight.t()
        if self.bias is not None:
            logits += self.bias
        if self.scale != 1.0:
            logits *= self.scale
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, scale, softcap, temperature):
        head = Head(weight, bias, scale, softcap)
        dtype = torch.promote_types(weight.dtype, torch.float32)
        log_probs, entropy, log_sum = (hidden.new_empty(len(targets), dtype=dtype) for _ in range(3))
        logits = None
        for rows in _chunks(len(targets)):
            del logits  # else it would still be held while the next chunk is computed
            logits = head.logits(hidden[rows]).div_(temperature)
            peak = logits.amax(-1, keepdim=True)
            weights = logits.sub(peak).exp_()
            total = weights.sum(-1)
            log_sum[rows] = total.log() + peak[:, 0]
            log_probs[rows] = logits.gather(1, targets[rows, None])[:, 0] - log_sum[rows]
            expected = torch.bmm(weights[:, None], logits[:, :, None])[:, 0, 0] / total
            entropy[rows] = log_sum[rows] - expected
            del weights
        ctx.logits = logits if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(hidden, weight, bias, targets, log_sum)
        ctx.constants = scale, softcap, temperature
        ctx.mark_non_differentiable(entropy)
        return log_probs, entropy

    @staticmethod
    def backward(ctx, grad, _):
        hidden, weight, bias, targets, log_sum = ctx.saved_tensors
        scale, softcap, temperature = ctx.constants
        head = Head(weight, bias, scale, softcap)
        dtype = grad.dtype
        grad_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight, dtype=dtype) if ctx.needs_input_grad[1] else None
        grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and ctx.needs_input_grad[2] else None
        logits, ctx.logits = ctx.logits, None  # they are overwritten: a second backward pass computes them again
        for rows in reversed(_chunks(len(targets))):
            if logits is None:
                logits = head.logits(hidden[rows]).div_(temperature)
            slope = None if softcap is None else (logits * (temperature / softcap)).square_().neg_().add_(1)
            push = logits.sub_(log_sum[rows, None]).exp_().neg_()  # onehot - softmax, once the target has its 1
            push.scatter_add_(1, targets[rows, None], torch.ones_like(push[:, :1]))
            push *= grad[rows, None] * (scale / temperature)
            if slope is not None:
                push *= slope
            if grad_hidden is not None:
                grad_hidden[rows] = (push @ weight.to(dtype)).to(hidden.dtype)
            if grad_weight is not None:
                grad_weight.addmm_(push.t(), hidden[rows].to(dtype))
            if grad_bias is not None:
                grad_bias += push.sum(0)
            del push, slope
            logits = None
        cast = None if grad_weight is None else grad_weight.to(weight.dtype)
        return grad_hidden, cast, grad_bias, None, None, None, None


def _chunks(rows: int) -> list[slice]:
    return [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]


def token_log_probs(hidden: Tensor, head: Head, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies (nats) of log-softmax(logits / temperature), at least float32.

    hidden [n, h], targets [n] int64 -> log_probs [n] with gradient, entropies [n] without.
    """
    return _TokenLogProbs.apply(hidden, head.weight, head.bias, targets, head.scale, head.softcap, temperature)
