"""Groups sampled from the live policy and scored: the source of every on-policy algorithm."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from groupwise.engines.contract import Engine, Request, SamplingParams
from groupwise.errors import TrainingError
from groupwise.rewards.contract import Reward
from groupwise.rewards.records import record_for
from groupwise.sources.contract import Gathered, Refill
from groupwise.sources.cursor import Cursor
from groupwise.types import Completion, DrawKey, Group, Prompt


@dataclass(frozen=True)
class Sampler:
    """Samples and scores whole groups: what training, evaluation and `groupwise sample` share."""

    engine: Engine
    reward: Reward
    tokenizer: PreTrainedTokenizerBase
    stop_ids: Sequence[int]
    seed: int
    stage: int
    purpose: str
    """`train`, `eval` or `sample`; a part of every draw's key."""
    group_size: int
    sampling: SamplingParams
    token_ends: bool = False
    """Tell rewards where in the text each token ends, which rewards of steps need."""

    def gather(self, prompts: Sequence[tuple[Prompt, int]]) -> Gathered:
        """One scored group for each (prompt, visit number)."""
        start = time.perf_counter()
        completions = self._sample(prompts)
        sampled = time.perf_counter()
        ids = [f"{prompt.id}#{visit}" for prompt, visit in prompts]
        records = [
            record_for(prompt, completion, self.tokenizer, self.stop_ids, group_id, with_token_ends=self.token_ends)
            for group_id, (prompt, _), group in zip(ids, prompts, completions, strict=True)
            for completion in group
        ]
        scores = self.reward.score(records)
        size = self.group_size
        groups = [
            Group(ids[number], prompt, tuple(group), tuple(scores[number * size : (number + 1) * size]))
            for number, ((prompt, _), group) in enumerate(zip(prompts, completions, strict=True))
        ]
        seconds = {"rollout": sampled - start, "reward": time.perf_counter() - sampled}
        tokens = sum(len(completion.token_ids) for group in completions for completion in group)
        return Gathered(groups, seconds, tokens)

    def _sample(self, prompts: Sequence[tuple[Prompt, int]]) -> list[list[Completion]]:
        requests = [
            Request(
                number * self.group_size + sample,
                prompt.token_ids,
                self.sampling,
                DrawKey(self.seed, self.purpose, self.stage, prompt.id, visit, sample),
            )
            for number, (prompt, visit) in enumerate(prompts)
            for sample in range(self.group_size)
        ]
        self.engine.submit(requests)
        finished = dict(self.engine.collect())
        assert len(finished) == len(requests), "the engine lost or doubled a request"
        return [
            [finished[number * self.group_size + sample] for sample in range(self.group_size)]
            for number in range(len(prompts))
        ]


class Live:
    """The source of on-policy groups: the cursor's next prompts, sampled and scored.

    With a `refill` (dynamic sampling) it samples further prompts, round after round, until enough groups are kept.
    """

    def __init__(
        self, prompts: Sequence[Prompt], cursor: Cursor, sampler: Sampler, refill: Refill | None = None
    ) -> None:
        self.prompts, self.cursor, self.sampler, self.refill = prompts, cursor, sampler, refill
        self.carried: list[Group] = []

    def groups(self, prompts: int) -> Gathered:
        """The groups of the next prompts. Raises `TrainingError` where the refill says to stop."""
        if self.refill is None:
            return self._sample(prompts)
        rounds = [self._sample(prompts)]
        carried = self._still_on_policy(rounds[0].groups)
        while True:
            groups = [*carried, *(group for gathered in rounds for group in gathered.groups)]
            dropped = {group.id: reason for group in groups if (reason := self.refill.refuses(group)) is not None}
            kept = [group for group in groups if group.id not in dropped]
            decision = self.refill.decide(len(kept), prompts, len(rounds))
            if decision != "sample":
                break
            rounds.append(self._sample(prompts))
        found = (
            f"{'too few' if kept else 'no'} learnable prompts: after {len(rounds)} rounds of sampling {len(kept)} of "
            f"{prompts} groups give signal ({_tally(dropped.values())})"
        )
        if decision == "stop":
            raise TrainingError(found, fix="give easier or harder prompts, or set dynamic_sampling.on_exhausted")
        if self.refill.surplus == "carry":
            self.carried = kept[prompts:]
        surplus = {group.id: "more groups than the step needs" for group in kept[prompts:]}
        if decision == "skip":
            surplus = {group.id: "too few groups give signal" for group in kept}
        return Gathered(
            groups,
            {phase: sum(gathered.seconds[phase] for gathered in rounds) for phase in rounds[0].seconds},
            sum(gathered.tokens_sampled for gathered in rounds),
            dropped | surplus,
            len(rounds),
            ""
            if len(kept) >= prompts
            else f"{found}; the step {'trains on those' if decision == 'train' else 'is skipped'}",
        )

    def _sample(self, prompts: int) -> Gathered:
        return self.sampler.gather([(self.prompts[index], visit) for index, visit in self.cursor.take(prompts)])

    def _still_on_policy(self, fresh: Sequence[Group]) -> list[Group]:
        """The groups carried over from the step before, if the policy is still the one that drew them."""
        carried, self.carried = self.carried, []
        version = fresh[0].completions[0].segments[-1].version
        return [group for group in carried if group.completions[0].segments[-1].version == version]

    def everything(self) -> None:
        """Nobody knows yet."""
        return None

    def state(self) -> dict[str, Any]:
        return self.cursor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.cursor.restore(state)


def _tally(reasons: Iterable[str]) -> str:
    return ", ".join(f"{count} x {reason}" for reason, count in Counter(reasons).most_common())
