"""The loss of every algorithm that moves the policy by advantages: one place for what they all do to it.

    L = sum_t W_t [ w_t * surrogate_t + beta * KL_t ]

An algorithm gives `surrogate`, the policy objective per token, and `credit`, the advantages. W is the aggregation, w
the correction for another engine's samples, KL the estimate against the reference where it stands in the loss.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

import torch
from pydantic import BeforeValidator, NonNegativeFloat, PositiveInt, model_validator
from torch import Tensor

from groupwise.algorithms.base import AlgorithmSettings
from groupwise.algorithms.contract import Loss, Needs
from groupwise.algorithms.parts import (
    AdaptiveKL,
    Bound,
    DynamicSampling,
    Reads,
    ReferenceRefresh,
    SoftOverlong,
    correction_of,
    off_for_none,
)
from groupwise.core.corrections import Correction, apply_correction, correction_weights
from groupwise.core.kl import ESTIMATORS, Estimate, EstimatorName, adaptive_coefficient, importance_weighted, k3
from groupwise.core.layout import Reduce, completions_where, identity, mask_completions, truncated_completions
from groupwise.core.lengths import completion_lengths, soft_overlong_punishment
from groupwise.core.masks import OnNonFinite, PolicyInputs, policy_inputs
from groupwise.core.metrics import correction_metrics, kl_metrics, policy_metrics
from groupwise.core.ratios import CLAMP, Ratio, importance_ratio
from groupwise.core.surrogates import Surrogate
from groupwise.core.token_rewards import kl_of_completions
from groupwise.core.weights import Aggregation, Denominator, token_weights, weighted_sum
from groupwise.types import Batch, Group, Mean, Metric


class PolicyGradient(AlgorithmSettings):
    """Settings and steps that algorithms with advantages share."""

    aggregation: Aggregation = "seq-mean-token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    denominator: Denominator = "all"
    """Whether completions without any token that counts stay in the number that the mean divides by."""
    length_constant: PositiveInt | None = None
    """The constant L of `seq-mean-token-sum-norm`. None: the run's largest number of tokens of a completion."""
    beta: NonNegativeFloat = 0.0
    """Weight of the KL to the reference policy; 0 needs no reference at all."""
    kl_estimator: EstimatorName = "k3"
    """How the divergence is estimated from one token: log pi/ref, half its square, or ref/pi - log ref/pi - 1."""
    kl_placement: Literal["loss", "reward"] = "loss"
    """Whether the estimate is differentiated, or subtracted from the reward."""
    kl_gradient: Literal["as_is", "unbiased"] = "as_is"
    """k3 in the loss differentiated as printed, which gives the gradient of KL(ref || policy), or times the ratio,
    which gives that of KL(policy || ref)."""
    adaptive_kl: AdaptiveKL | None = None
    """Let beta follow the divergence."""
    reference_refresh: ReferenceRefresh | None = None
    """Let the reference follow the policy."""
    correction: Annotated[Correction | None, BeforeValidator(correction_of)] = None
    """What to do about samples that another engine drew: a table, or a kind such as `tis-token`."""
    dynamic_sampling: Annotated[DynamicSampling | Literal["off"], BeforeValidator(off_for_none)] = "off"
    """Drop groups that are all right or all wrong, and sample on; or `off`."""
    soft_overlong: SoftOverlong | None = None
    """Punish completions near the token limit."""
    overlong_filter: bool = False
    """Take truncated completions out of the loss and its denominators, not out of the group's statistics."""
    ratio_clamp: Bound = CLAMP
    """Largest log-ratio, either way, that enters an exponential; beyond it the gradient is 0. 0: no limit."""
    on_nonfinite: OnNonFinite = "error"
    """A log-prob that is not finite skips the optimiser step, or with `drop` only leaves that token out."""

    @abstractmethod
    def surrogate(self, inputs: PolicyInputs) -> Surrogate:
        """The policy's loss per token, before correction and KL."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.beta == 0:
            for setting in ("adaptive_kl", "reference_refresh"):
                if getattr(self, setting) is not None:
                    raise ValueError(f"{setting} is set and beta is 0, so there is no reference; set beta above 0")
            return self
        if self.kl_placement == "loss" and self.kl_estimator == "k1":
            raise ValueError("kl_estimator 'k1' in the loss has an expected gradient of 0; use 'k3' or 'k2'")
        if self.kl_placement == "reward" and self.kl_gradient == "unbiased":
            raise ValueError("kl_gradient 'unbiased' is about a KL in the loss; drop it beside kl_placement 'reward'")
        if self.kl_gradient == "unbiased" and self.kl_estimator == "k2":
            raise ValueError("kl_estimator 'k2' has that gradient as it is; leave kl_gradient 'as_is'")
        if self.adaptive_kl is not None and self.kl_placement == "loss":
            raise ValueError("adaptive_kl follows the KL in the reward; set kl_placement to 'reward'")
        if self.kl_placement == "reward" and self.kl_estimator != "k1":
            warnings.warn(f"{self.kl_estimator} in the reward has a wrong gradient; k1 has the right one", stacklevel=2)
        return self

    def with_budget(self, max_tokens: int) -> Self:
        """The budget is the length constant, where one is needed and none is given."""
        if self.aggregation != "seq-mean-token-sum-norm" or self.length_constant is not None:
            return self
        return self.model_copy(update={"length_constant": max_tokens})

    @property
    def refill(self) -> DynamicSampling | None:
        """How to sample on, or None."""
        return self.dynamic_sampling if isinstance(self.dynamic_sampling, DynamicSampling) else None

    @property
    def kl_in_loss(self) -> bool:
        """Whether the KL is differentiated."""
        return self.beta > 0 and self.kl_placement == "loss"

    @property
    def kl_in_reward(self) -> bool:
        """Whether the KL is subtracted from the reward."""
        return self.beta > 0 and self.kl_placement == "reward"

    @property
    def needs(self) -> Needs:
        """Rewarded samples; the reference only where it is used."""
        return Needs(
            "prompts",
            rewards=True,
            reference=self.beta > 0,
            old_log_probs=self.kl_in_reward,
            verdicts=self.refill is not None and self.refill.metric == "correct",
            couples_groups=self.aggregation == "group-token-mean",
            dynamic_sampling=self.refill,
            reference_refresh=self.reference_refresh,
        )

    @property
    def reads(self) -> Reads:
        """By the settings; most compare with the old policy."""
        reads = Reads().also({"rewards"}, {"advantages", "old_log_probs"})
        if self.overlong_filter:
            reads = reads.also({"truncated"}, {"truncated"})
        if self.correction is not None:
            reads = reads.also(loss={"sampler_log_probs"})
        if self.kl_in_loss:
            reads = reads.also(loss={"ref_log_probs"})
        if self.kl_in_reward:
            reads = reads.also({"ref_log_probs", "old_log_probs"})
        if self.refill is not None:
            reads = reads.also({"group_ids"} | ({"correct"} if self.refill.metric == "correct" else set()))
        return reads.also(loss={"group_ids"}) if self.aggregation == "group-token-mean" else reads

    def keep(self, group: Group) -> str | None:
        """With `dynamic_sampling` drop groups that are all right or all wrong, or that nobody could score."""
        return None if self.refill is None else self.refill.refuses(group)

    def scores(self, batch: Batch) -> Tensor:
        """[N] the rewards, with the punishment for length where there is one."""
        if self.soft_overlong is None:
            return batch.rewards
        limits = self.soft_overlong
        lengths = completion_lengths(batch)
        return batch.rewards + soft_overlong_punishment(lengths, limits.max_length, limits.cache, limits.factor)

    def mask(self, batch: Batch) -> Batch:
        """Mask what was not scored, and truncated completions where they are filtered."""
        counted = ~batch.rewards.isnan()
        return mask_completions(batch, counted & ~truncated_completions(batch) if self.overlong_filter else counted)

    def weigh(self, batch: Batch, reduce: Reduce = identity) -> Batch:
        """Weights by `aggregation`, over the whole optimiser step."""
        weights = token_weights(
            batch, self.aggregation, reduce, denominator=self.denominator, length_constant=self.length_constant
        )
        return replace(batch, token_weights=weights)

    def signal(self, batch: Batch) -> Tensor:
        """Completions with an advantage; all that count, where the KL pulls on them."""
        assert batch.advantages is not None
        return completions_where(batch, batch.loss_mask if self.kl_in_loss else batch.advantages != 0)

    def ratio(self, inputs: PolicyInputs) -> Ratio:
        """rho = pi_theta / pi_old per token."""
        return importance_ratio(inputs.log_probs, inputs.old_log_probs, self.ratio_clamp or None)

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """-J of a micro-batch; `coefficient` is the gradient coefficient."""
        inputs = policy_inputs(batch, log_probs, self.on_nonfinite, sampler=self.correction is not None)
        assert not self.kl_in_loss or inputs.ref_log_probs is not None, "beta > 0 needs reference log-probs"
        surrogate = self.surrogate(inputs)
        metrics = policy_metrics(inputs, surrogate)
        if self.correction is not None:
            corrected = correction_weights(self.correction, inputs)
            metrics |= correction_metrics(inputs, corrected)
            surrogate = apply_correction(corrected.weight, surrogate, inputs)
        loss, coefficient = surrogate.loss, surrogate.coefficient
        if inputs.ref_log_probs is not None:
            estimate = self._estimate(inputs)
            metrics |= kl_metrics(inputs, estimate)
            if self.kl_in_loss:
                loss, coefficient = loss + self.beta * estimate.value, coefficient - self.beta * estimate.slope
        return Loss(weighted_sum(loss, inputs.batch), coefficient, metrics=metrics)

    def _estimate(self, inputs: PolicyInputs) -> Estimate:
        assert inputs.ref_log_probs is not None
        if self.kl_estimator != "k3":
            return ESTIMATORS[self.kl_estimator](inputs.log_probs, inputs.ref_log_probs)
        estimate = k3(inputs.log_probs, inputs.ref_log_probs, self.ratio_clamp or None)
        return importance_weighted(estimate, self.ratio(inputs)) if self.kl_gradient == "unbiased" else estimate

    def diagnose(self, batch: Batch, reduce: Reduce = identity) -> dict[str, Metric]:
        """The KL of a completion where it stands in the reward, and the mean score after it was shaped."""
        metrics: dict[str, Metric] = {}
        scored = ~batch.rewards.isnan()
        totals = {"score_mean": torch.where(scored, self.scores(batch), 0.0).sum()}
        if self.kl_in_reward:
            totals["kl_per_completion"] = kl_of_completions(batch, self.kl_estimator)[scored].sum()
        *sums, count = reduce(torch.stack([*totals.values(), scored.sum().double()])).tolist()
        metrics |= {name: Mean(total, count) for name, total in zip(totals, sums, strict=True)}
        return metrics

    def advance(self, metrics: Mapping[str, float | None], completions: int) -> Self:
        """With `adaptive_kl`, the same settings with the next beta."""
        observed = metrics.get("kl_per_completion")
        if self.adaptive_kl is None or observed is None:
            return self
        control = self.adaptive_kl
        beta = adaptive_coefficient(self.beta, observed, control.target, control.horizon, completions)
        return self.model_copy(update={"beta": beta})

    def objective(self) -> str:
        """The objective with these settings."""
        from groupwise.algorithms.describe import describe

        return describe(self)

    @abstractmethod
    def equation(self) -> str:
        """The policy term of the objective per token, in plain text, with this object's numbers in it."""

    def describe_credit(self) -> list[str]:
        """How advantages come about, in plain text."""
        return []
