"""What a batch gets before credit is assigned: the log-probs and values that the algorithm asked for, nothing else."""

from __future__ import annotations

from dataclasses import replace

import torch

from groupwise.algorithms.contract import Needs
from groupwise.models.critic import Critic
from groupwise.models.policy import Policy
from groupwise.models.reference import Reference
from groupwise.packing import take
from groupwise.training.reference_cache import ReferenceCache
from groupwise.training.update import per_token_values
from groupwise.types import Batch


def annotate(
    batch: Batch,
    needs: Needs,
    policy: Policy,
    reference: Reference | ReferenceCache | None,
    critic: Critic | None,
    *,
    several_updates: bool,
    max_tokens: int,
) -> Batch:
    """The batch with `old_log_probs`, `ref_log_probs`, `values` and `final_values`, each where it is needed.

    Old log-probs are those of the policy before the first of `several_updates`; a single update needs none, since its
    ratio is 1 by construction.
    """
    completions = list(range(len(batch.completion_spans)))

    def log_probs(part: Batch) -> torch.Tensor:
        return policy.forward.log_probs(part)[0]

    if needs.policy and (needs.old_log_probs or several_updates):
        batch = replace(batch, old_log_probs=per_token_values(batch, completions, max_tokens, log_probs))
    if isinstance(reference, ReferenceCache):
        batch = replace(batch, ref_log_probs=reference.log_probs(batch))
    elif reference is not None:
        with reference.model():
            batch = replace(batch, ref_log_probs=per_token_values(batch, completions, max_tokens, log_probs))
    if critic is not None and needs.judges is None:
        batch = replace(batch, values=per_token_values(batch, completions, max_tokens, critic.values))
        if needs.final_values:
            with torch.no_grad():
                final = [critic.final_values(take(batch, [completion])) for completion in completions]
            batch = replace(batch, final_values=torch.cat(final))
    return batch
