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
        ours: bool = True,
    ) -> None:
        """`record` writes down what was sampled; `recall` gives that back, or None where nothing was sampled yet.
        `ours`: the samples are this run's, and count as its tokens.
        """
        self.prompts, self.sampler, self.select = prompts, sampler, select
        self.record, self.recall = record, recall
        self.shuffle, self.ours = shuffle, ours
        self.kept: list[Group] = []
        self.cursor: Cursor | None = None
        self.unreported = Gathered([])

    def groups(self, prompts: int) -> Gathered:
        """The next kept groups. Raises `TrainingError` where nothing of all that was sampled is kept."""
        cursor = self._cursor()
        cost, self.unreported = self.unreported, Gathered([])
        kept = [self.kept[index] for index, _ in cursor.take(prompts)]
        return Gathered(kept, {"rollout": 0.0, "reward": 0.0} | dict(cost.seconds), cost.tokens_sampled)

    def everything(self) -> Sequence[Group]:
        """All kept groups, sampled now if they weren't yet."""
        self._cursor()
        return self.kept

    def state(self) -> dict[str, Any]:
        return self._cursor().state()

    def restore(self, state: Mapping[str, Any]) -> None:
        if self.recall() is None:
            raise TrainingError(
                "the samples that this stage drew once are gone from the run folder",
                fix="put samples/ back, or start a new run",
            )
        self._cursor().restore(state)
        self.unreported = Gathered([])

    def _cursor(self) -> Cursor:
        """A cursor over the kept groups, recalled from what was written so that a resumed run sees the very same."""
        if self.cursor is None:
            seconds = {}
            sampled = self.recall()
            if sampled is None:
                gathered = self.sampler.gather([(prompt, 0) for prompt in self.prompts])
                self.record(gathered.groups)
                seconds = dict(gathered.seconds)
                sampled = self.recall()
            assert sampled is not None
            # A run that ended before its first checkpoint has sampled already, and counts that where it would have.
            tokens = sum(len(completion.token_ids) for group in sampled for completion in group.completions)
            self.unreported = Gathered([], seconds, tokens if self.ours else 0)
            self.kept = [part for group in sampled for part in self.select(group) if part.completions]
            if not self.kept:
                raise TrainingError(
                    f"none of {len(sampled)} sampled groups has a completion to train on",
                    fix="sample more completions per prompt, or easier prompts",
                )
            ids = [part.id for part in self.kept]
            self.cursor = Cursor(ids, seed=self.sampler.seed, stage=self.sampler.stage, shuffle=self.shuffle)
        return self.cursor
