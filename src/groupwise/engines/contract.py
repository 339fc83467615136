"""What an engine is: token ids in, sampled token ids and their log-probs out.

    engine.load(policy, version=3)                    # from now on, samples are drawn from these weights
    engine.submit([Request(id=0, prefix=(1, 5, 9), sampling=Sampling(temperature=1.0, max_tokens=32), key=key)])
    finished = engine.collect()                       # [(0, Completion(...))], in any order, each exactly once

An engine returns, for each request, the tokens, the log-prob of each under the distribution it was really drawn from
(log-softmax of logits / temperature; never a truncated or unscaled one), why it stopped, and the version of the
policy. The draw at position t of a completion depends on `key` and t alone, so results do not depend on what else is
in flight. Requests that share a prefix may be computed together; whole groups are made by `sources.live`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from groupwise.types import Completion, DrawKey


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. Temperature 0 is greedy."""

    temperature: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to sample."""

    id: int
    prefix: tuple[int, ...]
    sampling: SamplingParams
    key: DrawKey


class Engine(Protocol):
    """See the module's docstring."""

    def load(self, policy: Any, version: int) -> None:
        """Sample from this policy from now on, and stamp completions with this version."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. Ids must be unique among those not yet collected."""

    def collect(self) -> list[tuple[int, Completion]]:
        """Run until every submitted request is finished; return (request id, completion) pairs."""
