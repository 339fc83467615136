"""Log-probs of the reference for groups that are all known before training: taken once, from the policy itself while it
still is the reference. No second model stays in memory, and no pass is made twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from groupwise.models.hidden import SharedPrompt
from groupwise.models.policy import Policy
from groupwise.packing import pack, to, unpack
from groupwise.training.update import per_token_values
from groupwise.types import Batch, Group

Key = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Token ids of the prompt and of its completions."""


class ReferenceCache:
    """Each group is computed by itself, so its numbers don't depend on the order or on what else is known."""

    def __init__(self, policy: Policy, groups: Sequence[Group], max_tokens: int) -> None:
        """The policy must hold the reference's weights; temperature is 1, as for all groups that are known before."""
        self.known: dict[Key, Tensor] = {}

        def log_probs(part: Batch, prompt: SharedPrompt | None) -> Tensor:
            return policy.forward.log_probs(part, prompt)[0]

        for group in groups:
            batch = to(pack([group], temperature=1.0), policy.device)
            key = _keys(batch)[0]
            if key not in self.known:
                everyone = list(range(len(batch.completion_spans)))
                values = per_token_values(batch, everyone, max_tokens, log_probs)
                self.known[key] = values[batch.completion_index >= 0]

    def log_probs(self, batch: Batch) -> Tensor:
        """[T] log-probs of the reference, zero where masked."""
        result = torch.zeros(batch.token_ids.numel(), device=batch.token_ids.device)
        result[batch.completion_index >= 0] = torch.cat([self.known[key] for key in _keys(batch)])
        return result


def _keys(batch: Batch) -> list[Key]:
    return [(prompt, tuple(completions)) for prompt, completions in unpack(batch)]
