"""Groups sampled from the live policy and scored: the source of every on-policy algorithm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from groupwise.engines.contract import Engine, Request, SamplingParams
from groupwise.rewards.contract import Reward
from groupwise.rewards.records import record_for
from groupwise.sources.contract import Gathered
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

    def gather(self, prompts: Sequence[tuple[Prompt, int]]) -> Gathered:
        """One scored group for each (prompt, visit number)."""
        start = time.perf_counter()
        completions = self._sample(prompts)
        sampled = time.perf_counter()
        ids = [f"{prompt.id}#{visit}" for prompt, visit in prompts]
        records = [
            record_for(prompt, completion, self.tokenizer, self.stop_ids, group_id)
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
    """The source of on-policy groups: the cursor's next prompts, sampled and scored."""

    def __init__(self, prompts: Sequence[Prompt], cursor: Cursor, sampler: Sampler) -> None:
        self.prompts, self.cursor, self.sampler = prompts, cursor, sampler

    def groups(self, prompts: int) -> Gathered:
        return self.sampler.gather([(self.prompts[index], visit) for index, visit in self.cursor.take(prompts)])

    def state(self) -> dict[str, Any]:
        return self.cursor.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.cursor.restore(state)
