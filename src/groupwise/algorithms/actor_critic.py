"""Advantages from a critic: what PPO and its descendants share.

    r_t = [t = last] score - beta k1_t       A = GAE(r, V; gamma, lambda)       R = GAE(r, V; gamma, lambda_critic) + V

Both come from the values of the critic as it was when the rollout began. Advantages are whitened over all tokens of
the rollout step; returns are made from the raw ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import Bound, Reads
from groupwise.algorithms.policy_gradient import PolicyGradient
from groupwise.core.advantages import NamedStdSpec
from groupwise.core.gae import gae
from groupwise.core.kl import EstimatorName
from groupwise.core.layout import Reduce, completions_where, identity, truncated_completions, working_dtype
from groupwise.core.masks import where_mask
from groupwise.core.token_rewards import token_rewards
from groupwise.core.values import explained_variance, value_loss
from groupwise.core.weights import Aggregation, token_weights
from groupwise.core.whitening import WHITENING_STD, whiten
from groupwise.types import Batch, Mean, Metric

Fraction = Field(ge=0, le=1)


class ActorCritic(PolicyGradient):
    """Generalised advantages per token, and the critic's own loss."""

    aggregation: Aggregation = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    kl_estimator: EstimatorName = "k1"
    """How the divergence is estimated from one token: log pi/ref, half its square, or ref/pi - log ref/pi - 1."""
    kl_placement: Literal["loss", "reward"] = "reward"
    """Whether the estimate is differentiated, or subtracted from the reward."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per token."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """The trace of the policy's advantages: 0 trusts the critic, 1 the return."""
    critic_lam: float | None = Field(default=None, ge=0, le=1)
    """The trace of the critic's targets; None: that of the advantages."""
    terminal_value: Literal["zero", "bootstrap"] = "zero"
    """What follows a truncated completion: nothing, or what the critic expects."""
    whiten: bool = True
    """Whiten advantages over all tokens of the rollout step."""
    whiten_std: NamedStdSpec = WHITENING_STD
    """The standard deviation of whitening: a table, or the name of one."""
    value_clip: Bound = 0.2
    """How far a value may move from the old one before its loss gives no more gradient; 0: no limit."""
    value_coefficient: NonNegativeFloat = 1.0
    """Weight of the critic's loss; 1 suits an optimiser of its own, 0.1 a shared trunk."""

    @property
    def needs(self) -> Needs:
        """A critic too; groups may have one completion."""
        return replace(super().needs, critic=True, final_values=self.terminal_value == "bootstrap")

    @property
    def reads(self) -> Reads:
        """Values too."""
        bootstrap = {"final_values", "truncated"} if self.terminal_value == "bootstrap" else set()
        return super().reads.also({"values", "old_values"} | bootstrap, {"values", "old_values", "returns"})

    def trace(self, batch: Batch) -> float | Tensor:
        """lambda of the policy's advantages: a number, or one per completion."""
        return self.lam

    def raw_advantages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Advantages and returns [T] of a masked batch, float64."""
        values = batch.values
        assert values is not None, "an actor-critic needs values"
        final = None
        if self.terminal_value == "bootstrap":
            assert batch.final_values is not None, "terminal_value 'bootstrap' needs final values"
            final = torch.where(truncated_completions(batch), batch.final_values.detach().double(), 0.0)
        scores = torch.where(batch.rewards.isnan(), 0.0, self.scores(batch))
        rewards = token_rewards(batch, scores, self.beta if self.kl_in_reward else 0.0, self.kl_estimator)

        def advantages(lam: float | Tensor) -> Tensor:
            return gae(rewards, values, batch, gamma=self.gamma, lam=lam, final_values=final)

        policy = advantages(self.trace(batch))
        target = policy if self.critic_lam is None else advantages(self.critic_lam)
        return policy, target + where_mask(values.detach(), batch, "values").double()

    def credit(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Whitened advantages and the critic's targets, per token."""
        batch = self.mask(batch)
        advantages, returns = self.raw_advantages(batch)
        if self.whiten:
            advantages = whiten(advantages, batch.loss_mask, self.whiten_std, reduce).values
        dtype = working_dtype()
        return replace(batch, advantages=advantages.to(dtype), returns=returns.to(dtype))

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Weights by `aggregation`, and a token mean for the critic."""
        return replace(super().weigh(batch, reduce), value_weights=token_weights(batch, "token-mean", reduce))

    def signal(self, batch: Batch) -> Tensor:
        """Every completion that counts: the critic learns from all."""
        return completions_where(batch, batch.loss_mask)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """-J of a micro-batch, and the critic's loss where there are values."""
        return replace(super().loss(batch, log_probs), value=self.critic_loss(batch, values))

    def critic_loss(self, batch: Batch, values: Tensor | None) -> Tensor | None:
        """The weighted loss of `values` [T], which have a gradient; None where there is nothing to compare with."""
        if values is None or batch.returns is None:
            return None
        assert batch.values is not None and batch.value_weights is not None, "values and weights come before the loss"
        values, old = where_mask(values, batch, "values"), where_mask(batch.values.detach(), batch, "values")
        losses = value_loss(values, old, where_mask(batch.returns.detach(), batch, "returns"), self.value_clip or None)
        return self.value_coefficient * torch.where(batch.loss_mask, batch.value_weights * losses, 0.0).sum()

    def diagnose(self, batch: Batch, reduce: Reduce = identity) -> dict[str, Metric]:
        """How much of the returns the critic explained, and whether there was anything to whiten."""
        metrics = super().diagnose(batch, reduce)
        if batch.values is None or batch.returns is None:
            return metrics
        explained = explained_variance(batch.values, batch.returns, batch.loss_mask, reduce)
        metrics["explained_variance"] = Mean(0.0 if math.isnan(explained) else explained, not math.isnan(explained))
        if self.whiten:
            raw, _ = self.raw_advantages(batch)
            tied = whiten(raw, batch.loss_mask, self.whiten_std, reduce).degenerate
            metrics["whitening_skipped"] = Mean(float(tied), 1)
        return metrics

    def describe_credit(self) -> list[str]:
        """Advantages and targets with these settings, in plain text."""
        kind = f"whitened over the step ({self.whiten_std.kind} std)" if self.whiten else "not whitened"
        return [
            f"A_t = GAE of the reward on the last token, γ = {self.gamma:g}, λ = {self.describe_trace()}, {kind}",
            f"critic: {self.describe_critic()}",
        ]

    def describe_critic(self) -> str:
        """The critic's loss per token and its target, in plain text."""
        after = "0" if self.terminal_value == "zero" else "V where truncated, else 0"
        squares = f"½ max((V − R)², (clip(V, V_old ± {self.value_clip:g}) − R)²)" if self.value_clip else "½ (V − R)²"
        target = self.describe_trace() if self.critic_lam is None else f"{self.critic_lam:g}"
        return f"{squares}, R = GAE with γ = {self.gamma:g}, λ = {target}, + V; after the last token: {after}"

    def describe_trace(self) -> str:
        """lambda, in plain text."""
        return f"{self.lam:g}"
