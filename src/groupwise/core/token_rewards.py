"""Rewards per token, for algorithms that assign credit along a completion.

    r_t = [t = last] score - beta KL_t         KL_t = log pi_old(o_t) - log pi_ref(o_t)

(DeepSeekMath, arXiv:2402.03300, Eq. 2, which prints pi_theta: while a rollout is scored pi_theta is pi_old, and
rewards are detached.) The score goes to the last token that counts. k1 is the estimator whose policy gradient, when it
stands in the reward, is that of KL(pi || pi_ref).
"""

from __future__ import annotations

import torch
from torch import Tensor

from groupwise.core.advantages import check_rewards
from groupwise.core.kl import ESTIMATORS, EstimatorName
from groupwise.core.layout import per_completion
from groupwise.core.masks import where_mask
from groupwise.core.scan import last_tokens
from groupwise.types import Batch


def token_rewards(batch: Batch, scores: Tensor, beta: float = 0.0, estimator: EstimatorName = "k1") -> Tensor:
    """[T] float64 from scores [N]; completions of which no token counts get none.

    Raises `NonFiniteLogprobError` for an infinite score.
    """
    check_rewards(scores)
    rewards = torch.zeros(len(batch.token_ids), dtype=torch.float64, device=scores.device)
    last = last_tokens(batch)
    scored = last >= 0
    rewards[last[scored]] = scores.detach().double()[scored]
    return rewards - beta * kl_of_rollout(batch, estimator) if beta > 0 else rewards


def kl_of_rollout(batch: Batch, estimator: EstimatorName = "k1") -> Tensor:
    """[T] float64: the divergence of the sampling policy from the reference, detached, 0 where masked."""
    assert batch.old_log_probs is not None and batch.ref_log_probs is not None, "a KL in the reward needs log-probs"
    old = where_mask(batch.old_log_probs.detach(), batch, "old_log_probs").double()
    ref = where_mask(batch.ref_log_probs.detach(), batch, "ref_log_probs").double()
    return ESTIMATORS[estimator](old, ref).value


def kl_of_completions(batch: Batch, estimator: EstimatorName = "k1") -> Tensor:
    """[N] float64: the same, summed over each completion."""
    return per_completion(kl_of_rollout(batch, estimator), batch)
