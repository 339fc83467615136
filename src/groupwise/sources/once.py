"""Groups sampled once, from the policy as it was when the stage began, and then trained on as a fixed data set.

The source of offline RFT. The samples are a file of the run: they can be looked at, and another run can train on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groupwise.errors import TrainingError
from groupwise.sources.contract import Gathered
from groupwise.sources.cursor import Cursor
from groupwise.sources.live import Sampler
from groupwise.types import Group, Prompt


class Once:
    """Samples when first asked, keeps what `select` keeps, and walks over that."""

    def __init__(
        self,
        prompts: Sequence[Prompt],
        sampler: Sampler,
        select: Callable[[Group], Sequence[Group]],
        record: Callable[[Sequence[Group]], None],
        recall: Callable[[], Sequence[Group] | None],
        *,
        shuffle: bool,
    ) -> None:
        """`record` writes down what was sampled; `recall` gives that back, or None where nothing was sampled yet."""
        self.prompts, self.sampler, self.select = prompts, sampler, select
        self.record, self.recall = record, recall
        self.shuffle = shuffle
        self.kept: list[Group] = []
        self.cursor: Cursor | None = None

    def groups(self, prompts: int) -> Gathered:
        """The next kept groups. Raises `TrainingError` where nothing of all that was sampled is kept."""
        seconds, tokens = {"rollout": 0.0, "reward": 0.0}, 0
        if self.cursor is None:
            sampled = self.recall()
            if sampled is None:
                gathered = self.sampler.gather([(prompt, 0) for prompt in self.prompts])
                sampled, seconds = gathered.groups, dict(gathered.seconds)
                self.record(sampled)
            # A run that ended before its first checkpoint has sampled already, and counts that where it would have.
            tokens = sum(len(completion.token_ids) for group in sampled for completion in group.completions)
        cursor = self._cursor()
        return Gathered([self.kept[index] for index, _ in cursor.take(prompts)], seconds, tokens)

    def state(self) -> dict[str, Any]:
        return self._cursor().state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._cursor().restore(state)

    def _cursor(self) -> Cursor:
        """A cursor over the kept groups, recalled from what was written so that a resumed run sees the very same."""
        if self.cursor is None:
            sampled = self.recall()
            if sampled is None:
                raise TrainingError(
                    "the samples that this stage drew once are gone from the run folder",
                    fix="put samples/ back, or start a new run",
                )
            self.kept = [part for group in sampled for part in self.select(group) if part.completions]
            if not self.kept:
                raise TrainingError(
                    f"none of {len(sampled)} sampled groups has a completion to train on",
                    fix="sample more completions per prompt, or easier prompts",
                )
            self.cursor = Cursor(
                [group.id for group in self.kept],
                seed=self.sampler.seed,
                stage=self.sampler.stage,
                shuffle=self.shuffle,
            )
        return self.cursor
