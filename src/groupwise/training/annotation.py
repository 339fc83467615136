"""What a batch gets before credit is assigned: the log-probs and values that the algorithm asked for, nothing else."""

from __future__ import annotations

from dataclasses import replace

import torch

from groupwise.algorithms.contract import Needs
from groupwise.models.critic import Critic
from groupwise.models.hidden import SharedPrompt
from groupwise.models.policy import Policy
from groupwise.models.reference import Reference
from groupwise.training.reference_cache import ReferenceCache
from groupwise.training.split_groups import parts
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

    def log_probs(part: Batch, prompt: SharedPrompt | None) -> torch.Tensor:
        return policy.forward.log_probs(part, prompt)[0]

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
                final = [critic.final_values(part, prompt) for _, part, prompt in parts(batch, completions, max_tokens)]
            batch = replace(batch, final_values=torch.cat(final))
    return batch
