"""How much a model can learn from a task: the pass rate, and the share of groups in which completions differ.

Where every prompt had the pass rate p, a group of G would hold both right and wrong completions with the probability

    1 - p^G - (1-p)^G

Real prompts differ in difficulty and give less. For G up to the size that was sampled, the share is also estimated from
the groups themselves, without bias: of n completions with c right, a random G of them are all right or all wrong with
the probability [C(c, G) + C(n-c, G)] / C(n, G).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupwise.sources.contract import Gathered
from groupwise.telemetry.metrics import completion_metrics, score_metrics
from groupwise.training.preview import signal_share
from groupwise.types import Group

SIZES = (2, 4, 8, 16, 32, 64)
FEW, MANY = 0.02, 0.98
"""Pass rates beyond which nearly all groups are alike."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a model's completions show of a task."""

    prompts: int
    group_size: int
    pass_rate: float | None
    with_signal: float | None
    """Share of groups with both right and wrong completions."""
    at_size: tuple[tuple[int, float, float | None], ...]
    """Group size, share of groups with signal by the formula at the pass rate, and as these groups have it."""
    mean_reward: float | None
    not_scored: float | None
    reasons: tuple[tuple[str, int], ...]
    """The commonest reasons for that, with their counts."""
    truncated: float | None
    scoring_seconds: float
    """Wall-clock seconds of the rewards per completion."""

    def remarks(self) -> Iterator[str]:
        """What a user should do about these numbers."""
        rate = self.pass_rate
        if rate is not None and rate < FEW:
            yield (
                f"the pass rate is {rate:.1%}: hardly a group has anything right to learn from; "
                "take easier prompts, larger groups, or some SFT first"
            )
        if rate is not None and rate > MANY:
            yield f"the pass rate is {rate:.1%}: hardly a group has anything wrong to learn from; take harder prompts"
        if self.not_scored:
            yield f"{self.not_scored:.1%} of completions could not be scored (most often: {self.reasons[0][0]})"
        if self.truncated is not None and self.truncated > 0.25:
            yield f"{self.truncated:.0%} of completions are cut off: raise sampling.max_tokens"


def measure(gathered: Gathered, group_size: int) -> Signal:
    """The numbers of some sampled and scored groups."""
    groups = gathered.groups
    rate, mixed, _ = signal_share(groups)
    scores = score_metrics(groups)
    count = sum(len(group.completions) for group in groups)
    unscored = [
        score.reason or "no reward applies"
        for group in groups
        for score in group.scores
        if score and score.value is None
    ]
    sizes = sorted({*SIZES, group_size})
    return Signal(
        prompts=len(groups),
        group_size=group_size,
        pass_rate=rate,
        with_signal=mixed,
        at_size=()
        if rate is None
        else tuple((size, mixed_share(rate, size), share_within(groups, size)) for size in sizes),
        mean_reward=scores["reward_mean"],
        not_scored=scores["frac_not_scored"],
        reasons=tuple(Counter(unscored).most_common(3)),
        truncated=completion_metrics(groups)["frac_truncated"],
        scoring_seconds=gathered.seconds["reward"] / count,
    )


def mixed_share(rate: float, size: int) -> float:
    """1 - p^G - (1-p)^G."""
    return 1 - rate**size - (1 - rate) ** size


def share_within(groups: Sequence[Group], size: int) -> float | None:
    """The mean over groups of the probability that `size` of its completions differ; None where none is so large."""
    shares = []
    for group in groups:
        verdicts = [score.correct for score in group.scores if score and score.correct is not None]
        if len(verdicts) >= size:
            right = sum(verdicts)
            alike = math.comb(right, size) + math.comb(len(verdicts) - right, size)
            shares.append(1 - alike / math.comb(len(verdicts), size))
    return sum(shares) / len(shares) if shares else None
