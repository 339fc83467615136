"""Rewards that depend on how long a completion is."""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.types import Batch


def completion_lengths(batch: Batch) -> Tensor:
    """[N] int64: tokens of each completion, the stop token included, whether they count in the loss or not."""
    lengths = [end - start for start, end in batch.completion_spans]
    return torch.tensor(lengths, dtype=torch.int64, device=batch.rewards.device)


def soft_overlong_punishment(lengths: Tensor, max_length: int, cache: int, factor: float = 1.0) -> Tensor:
    """[N] float64, added to the reward (DAPO, arXiv:2503.14476, Eq. 13).

    0 up to max_length - cache tokens, then falling linearly to -factor at max_length, and -factor beyond.
    """
    return factor * ((max_length - cache - lengths.double()) / cache).clamp(-1.0, 0.0)
