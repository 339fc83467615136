"""What an algorithm is: the third choice of the unified paradigm (DeepSeekMath, arXiv:2402.03300, section 5.2.1).

    grad J = E over (q, o) from SOURCE [ sum_t  W(o, t) * COEFFICIENT(q, o, t; REWARD) * grad log pi(o_t | q, o_<t) ]

An algorithm says what it needs, which groups it keeps, how scores become advantages, how tokens are weighted, and what
the loss is. It is pure: it never sees a model, an engine or a reward. It is also its own table of settings: what a run
file names is what runs.

The trainer calls it in this order, once per rollout step, and never asks for its name:

    keep(group)            for each scored group: None, or why it is dropped
    select(group)          what is trained on of a kept group: itself, for most
    credit(batch)          advantages (and returns) of all groups of the step; statistics go through `reduce`
    diagnose(batch)        what credit is worth saying about, as metrics
    per optimiser step:
      weigh(batch)         weights per token for the whole optimiser step; nothing divides later
      signal(batch)        which completions can give any gradient at all
      loss(micro_batch, log_probs, values)   plain weighted sums over tokens: the sum over micro-batches is the step's
    advance(metrics, completions)   the algorithm of the next rollout step: itself, or one with another coefficient

A run asks once for `with_budget(max_tokens)` and uses what it gets. The algorithm that `advance` returns has other
settings, so a checkpoint holds its settings.

`reduce` sums a tensor over the ranks of a run, and is the identity in one process. Because weights are fixed for the
whole optimiser step, the gradient does not depend on how the step is cut into micro-batches or ranks.

What a batch holds beside its tokens follows from `needs`: log-probs of the reference, log-probs of the policy before
the first update of the rollout, values. A reward in a batch is the one that was given: a length punishment or a KL in
the reward belongs to `credit`, which never overwrites it.

A worked example, REINFORCE with the batch mean as its baseline, complete:

    class Reinforce(AlgorithmSettings):
        name: Literal["reinforce"] = "reinforce"
        needs: ClassVar = Needs(source="prompts", rewards=True)

        def credit(self, batch, reduce=identity):
            scored = ~batch.rewards.isnan()
            total = reduce(torch.stack([batch.rewards[scored].sum(), scored.sum()]))
            advantages = torch.where(scored, batch.rewards - total[0] / total[1], 0.0)
            return replace(batch, advantages=per_token(advantages, batch))

        def weigh(self, batch, reduce=identity):
            return replace(batch, token_weights=token_weights(batch, "token-mean", reduce))

        def signal(self, batch):
            return completions_where(batch, batch.advantages != 0)

        def loss(self, batch, log_probs, values=None):
            log_probs = where_mask(log_probs, batch)
            loss = -(batch.token_weights * batch.advantages * log_probs).sum()
            return Loss(policy=loss, coefficient=batch.advantages)

        def objective(self):
            return "J = E[ 1/sum|o| * sum_i sum_t (r_i - mean r) * log pi(o_t | q, o_<t) ]"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, runtime_checkable

from torch import Tensor

from groupwise.algorithms.parts import DynamicSampling, Reads, ReferenceRefresh
from groupwise.types import Batch, Group, Metric

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over the ranks of a run."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there before an algorithm can run; the trainer builds this and nothing else."""

    source: Literal["prompts", "demonstrations", "pairs", "steps"]
    """Where groups come from: prompts to sample for, or what is written already. A pair is a group of two completions,
    the chosen one first; steps are a demonstration with a label for each of its steps, as the score's step rewards."""
    rewards: bool
    min_group_size: int = 1
    sampling: Literal["live", "once"] = "live"
    """Sample from the current policy at every step, or once from the policy as it is before the first update; log-probs
    of samples that were drawn once are taken at temperature 1, as those of demonstrations and pairs are."""
    reference: bool = False
    """`ref_log_probs`, of the reference policy."""
    old_log_probs: bool = False
    """`old_log_probs` at credit time, even where one update per rollout could do without."""
    critic: bool = False
    """`values` at credit time, and `values` with a gradient in the loss, whose `Loss.value` trains the critic."""
    judges: Literal["completions", "steps"] | None = None
    """The critic is there to judge what is written: its `values` are those after the tokens that count, with that token
    read, and there are none at credit time. Of whole completions it is a reward model, of steps a process reward model,
    which is what `groupwise export` makes of it."""
    final_values: bool = False
    """`final_values` at credit time: the critic's value after the last token."""
    step_rewards: bool = False
    """Scores with step rewards."""
    verdicts: bool = False
    """Scores with `correct`."""
    policy: bool = True
    """Whether the policy is trained; False where only the critic is."""
    on_policy: bool = False
    """No ratio corrects for several updates per rollout: more than one deserves a warning."""
    couples_groups: bool = False
    """A group must not be split: over micro-batches, minibatches or ranks."""
    dynamic_sampling: DynamicSampling | None = None
    """Sample on until enough groups are kept."""
    reference_refresh: ReferenceRefresh | None = None
    """When and how the reference follows the policy."""
    until: tuple[str, float] | None = None
    """End the stage before its last step once this metric is above this value."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one micro-batch, its share of the whole optimiser step's loss."""

    policy: Tensor
    """Scalar, connected to the graph."""
    coefficient: Tensor
    """[T] detached: the gradient coefficient, d loss / d log_prob = -weight * coefficient."""
    value: Tensor | None = None
    """Scalar loss of the critic."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)


@runtime_checkable
class Algorithm(Protocol):
    """See the module's docstring."""

    @property
    def name(self) -> str:
        """The word that a run file uses."""

    @property
    def needs(self) -> Needs:
        """What must be there for these settings; a plain class attribute will do."""

    @property
    def reads(self) -> Reads:
        """Which arrays change the result with these settings."""

    @property
    def differences(self) -> tuple[str, ...]:
        """How it differs from the published form, in sentences for `groupwise explain` and the docs."""

    def keep(self, group: Group) -> str | None:
        """None to keep the group, or the reason to drop it."""

    def select(self, group: Group) -> Sequence[Group]:
        """What is trained on of a kept group: itself, with fewer completions perhaps, or pairs out of it. Selecting
        from what was selected changes nothing."""

    def mask(self, batch: Batch) -> Batch:
        """The batch with the completions masked that don't count in the loss; part of `credit`."""

    def credit(self, batch: Batch, reduce: Reduce = ...) -> Batch:
        """The batch with `advantages` (and `returns`) [T], detached, computed in float64 over the whole step."""

    def diagnose(self, batch: Batch, reduce: Reduce = ...) -> Mapping[str, Metric]:
        """Metrics of a credited batch, the same on every rank."""

    def weigh(self, batch: Batch, reduce: Reduce = ...) -> Batch:
        """The batch with `token_weights` [T] (and those of further terms), zero where `loss_mask` is False, normalised
        over the whole optimiser step and all ranks."""

    def signal(self, batch: Batch) -> Tensor:
        """[N] bool: completions whose tokens can have a gradient. The others need no forward pass."""

    def loss(self, batch: Batch, log_probs: Tensor, values: Tensor | None = None) -> Loss:
        """The weighted loss of a micro-batch, from log_probs [T] of the current policy (and values [T]).

        Raises `NonFiniteLogprobError` where an unmasked log-prob is not finite.
        """

    def advance(self, metrics: Mapping[str, float | None], completions: int) -> Self:
        """The algorithm of the next rollout step, given this step's metrics and the number of its completions."""

    def with_budget(self, max_tokens: int) -> Self:
        """The algorithm of a run whose completions have at most so many tokens, for settings that follow from it."""

    def objective(self) -> str:
        """The objective that is maximised, in plain text, with this object's numbers in it."""
