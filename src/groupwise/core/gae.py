"""Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438) on the flat token axis.

    delta_t = r_t + gamma V_{t+1} - V_t        A_t = sum_k (gamma lambda)^k delta_{t+k}        R_t = A_t + V_t

V_t is the critic's value of the state before token t. Masked tokens inside a completion (a tool's output) are
skipped: the next value and the running sum are carried over them, so the result is that of the sequence without
them. lambda may differ by completion (VAPO, arXiv:2504.05118, Eq. 5).
"""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.core.masks import check_finite
from groupwise.core.scan import rows_of
from groupwise.types import Batch


def gae(
    rewards: Tensor,
    values: Tensor,
    batch: Batch,
    *,
    gamma: float = 1.0,
    lam: float | Tensor = 0.95,
    final_values: Tensor | None = None,
) -> Tensor:
    """Advantages [T] float64, 0 where the loss mask is False, from rewards and values [T].

    `lam` is a number or one per completion, [N]. `final_values` [N] is the value of the state after the last token:
    0 where the completion ended, which is what None means for all. Raises `NonFiniteLogprobError` for a value that
    is not finite at a token that counts.
    """
    check_finite(values, batch, "values")
    rows = rows_of(batch, batch.loss_mask)
    reward, value = rows.lay(rewards), rows.lay(values)
    count, width = value.shape
    decay = gamma * torch.as_tensor(lam, dtype=torch.float64, device=value.device).expand(count)
    after = torch.zeros_like(decay) if final_values is None else final_values.detach().double()
    running = torch.zeros_like(decay)
    advantages = torch.zeros_like(value)
    for place in range(width - 1, -1, -1):
        inside = place < rows.lengths
        delta = reward[:, place] + gamma * after - value[:, place]
        running = torch.where(inside, delta + decay * running, running)
        after = torch.where(inside, value[:, place], after)
        advantages[:, place] = running
    return rows.lift(advantages, len(batch.token_ids))


def length_adaptive_lambda(lengths: Tensor, alpha: float, floor: float = 0.0) -> Tensor:
    """[N] float64: 1 - 1 / (alpha length), bounded to [floor, 1] (VAPO, Eq. 5).

    The formula comes from 1 / (1 - lambda) = alpha length and is negative for completions shorter than 1 / alpha.
    """
    return (1 - 1 / (alpha * lengths.double().clamp(min=1))).clamp(floor, 1.0)
