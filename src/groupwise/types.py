"""The nouns of groupwise: what flows from prompts to the optimiser.

    Prompt -> Completion -> Score -> Group -> Batch

All are frozen and compute nothing. A field never changes its meaning, a sample is one record, a group is known by its
id, and masks come from structure (spans), never from token values. This module imports nothing heavy, so reward
workers can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

FinishReason = Literal["stop", "length", "aborted"]
"""`stop`: a stop token was drawn (and is the last token); `length`: the token limit came first; `aborted`: neither."""

Span = tuple[int, int]
"""Start (inclusive) and end (exclusive) on a token axis."""


@dataclass(frozen=True, slots=True)
class DrawKey:
    """What a random draw depends on, and nothing else: not the batch, not the number of processes, not a restart.

    With the position of the token it gives the uniform number that chooses that token.
    """

    seed: int
    """The run's seed."""
    purpose: str
    """`train`, `eval` or `sample`."""
    stage: int
    """0-based index of the stage in the run."""
    prompt_id: str
    visit: int
    """How many times this prompt had been visited before in this stage."""
    sample: int
    """0-based index of the completion in its group."""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is asked."""

    id: str
    token_ids: tuple[int, ...]
    text: str
    """The rendered text that `token_ids` encode: the chat template's output, or the row's plain prompt."""
    messages: tuple[Mapping[str, Any], ...] | None = None
    """The chat, when the row had one."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The data row's other columns, opaque to all but rewards."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of tokens with one origin: sampled by the policy (trainable) or put there by somebody else."""

    token_ids: tuple[int, ...]
    sampler_log_probs: tuple[float, ...] | None
    """Natural log-prob of each token under the distribution it was really drawn from; None where nothing was drawn."""
    trainable: bool = True
    version: int = 0
    """The version of the policy that drew the tokens."""
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer to a prompt: segments that are only ever appended to."""

    segments: tuple[Segment, ...]
    finish_reason: FinishReason
    key: DrawKey | None = None
    """None for completions that were not sampled here (demonstrations, pairs)."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens, the stop token included when one was drawn."""
        return tuple(token for segment in self.segments for token in segment.token_ids)


@dataclass(frozen=True, slots=True)
class Score:
    """What a reward says of one completion: right, wrong, or not scored."""

    value: float | None
    """The shaped reward that is optimised; None: it could not be scored, and leaves statistics and loss."""
    correct: bool | None = None
    """The verdict that filters, pass@k and positive examples use; never derived from a shaped value."""
    reason: str = ""
    """Why, in words: what was taken as the answer, what was refused, or why it was not scored."""
    parts: Mapping[str, float | None] = field(default_factory=dict)
    """Named components before weighting."""
    step_rewards: tuple[float | None, ...] | None = None
    """One per reasoning step, where a process reward exists."""
    step_ends: tuple[int, ...] | None = None
    """0-based index, in the completion, of the last token of each step."""


@dataclass(frozen=True, slots=True)
class Group:
    """One prompt with its completions and scores, in sample order: the unit that travels, is filtered and packed."""

    id: str
    prompt: Prompt
    completions: tuple[Completion, ...]
    scores: tuple[Score | None, ...]
    """One per completion; None: nothing is scored here (demonstrations), unlike a `Score` without value."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The groups of one rollout step on one flat token axis, without padding.

    T tokens, N completions, K groups. A group's prompt stands once, before its completions; `[T]` tensors of log-probs,
    advantages and weights are zero at prompt positions. Position t holds the log-prob of token t given what precedes
    it in its own completion and prompt.
    """

    token_ids: Tensor  # [T] int64
    positions: Tensor  # [T] int64; every completion of a group restarts at the length of its prompt
    loss_mask: Tensor  # [T] bool; True at trainable completion tokens that count
    completion_index: Tensor  # [T] int64; the completion a token belongs to, -1 at prompt positions
    temperature: float  # log-probs are those of log-softmax(logits / temperature)
    group_ids: tuple[str, ...]  # K
    prompt_spans: tuple[Span, ...]  # K
    completion_spans: tuple[Span, ...]  # N
    group_index: Tensor  # [N] int64; the group of each completion
    rewards: Tensor  # [N] float64; NaN: no reward, or not scored
    correct: tuple[bool | None, ...]  # N
    finish_reasons: tuple[FinishReason, ...]  # N
    step_rewards: tuple[tuple[float | None, ...] | None, ...]  # N
    step_ends: tuple[tuple[int, ...] | None, ...]  # N; 0-based within the completion
    sampler_log_probs: Tensor | None = None  # [T] float32
    old_log_probs: Tensor | None = None  # [T] float32; of the policy when the rollout began to be trained on
    ref_log_probs: Tensor | None = None  # [T] float32
    values: Tensor | None = None  # [T] float32; of the critic, before each token
    returns: Tensor | None = None  # [T] float32
    advantages: Tensor | None = None  # [T] float32
    final_values: Tensor | None = None  # [N] float32; of the critic, after the last token of each completion
    token_weights: Tensor | None = None  # [T] float32; sum to the whole optimiser step's normalisation
    value_weights: Tensor | None = None  # [T] float32; the same for the critic's loss
    likelihood_weights: Tensor | None = None  # [T] float32; the same for a likelihood beside the policy's objective


@dataclass(frozen=True, slots=True)
class Mean:
    """A metric that is a mean: kept as sum and count, so that parts add up over micro-batches and ranks."""

    total: float
    count: float


@dataclass(frozen=True, slots=True)
class Maximum:
    """A metric that is a maximum over micro-batches and ranks."""

    value: float


@dataclass(frozen=True, slots=True)
class Total:
    """A metric that is a sum over micro-batches and ranks, such as a loss whose weights are the whole step's."""

    value: float


Metric = Mean | Maximum | Total
