"""Drawing tokens from logits by inverse transform, with the log-prob of the distribution really drawn from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256
"""Vocabulary entries per block of the two-level search."""


def draw(logits: Tensor, temperatures: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """logits [R, V] float32, temperatures [R], uniforms [R] float64 in [0, 1) -> tokens [R], log-probs [R].

    The token is the first whose cumulative probability exceeds the uniform number; cumulative sums are taken in
    float64, over blocks and then inside one block, so no token is favoured by rounding. At temperature 0 the most
    likely token is taken, with log-prob 0: nothing is drawn. Logits that aren't finite give some token, and NaN.
    """
    greedy = temperatures == 0
    scaled = logits / torch.where(greedy, 1.0, temperatures)[:, None]
    peak = scaled.amax(-1, keepdim=True)
    weights = F.pad((scaled - peak).exp_(), (0, -logits.shape[1] % BLOCK))
    blocks = weights.view(len(weights), -1, BLOCK)
    sums = blocks.sum(-1, dtype=torch.float64).cumsum(-1)
    target = uniforms[:, None] * sums[:, -1:]
    block = torch.searchsorted(sums, target, right=True).clamp_(max=blocks.shape[1] - 1)
    before = torch.where(block > 0, sums.gather(1, (block - 1).clamp_(min=0)), 0.0)
    inside = blocks[torch.arange(len(weights), device=logits.device), block[:, 0]].to(torch.float64)
    place = torch.searchsorted(inside.cumsum(-1), target - before, right=True)
    last = BLOCK - 1 - (inside > 0).flip(-1).to(torch.int8).argmax(-1, keepdim=True)  # never a token of weight zero
    drawn = (block * BLOCK + torch.minimum(place, last))[:, 0]
    drawn.clamp_(max=logits.shape[1] - 1)  # NaN would end in the padding
    tokens = torch.where(greedy, logits.argmax(-1), drawn)
    log_sum = sums[:, -1].log().to(scaled.dtype) + peak[:, 0]
    log_probs = scaled.gather(1, tokens[:, None])[:, 0] - log_sum
    return tokens, torch.where(greedy, 0.0, log_probs)
