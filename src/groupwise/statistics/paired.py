"""Two checkpoints on the same prompts: the difference per prompt, its interval, and whether chance explains it.

Hard prompts are hard for both, so differences vary less than the values do, and the same prompts tell smaller gains
than two separate samples could. Test and interval are Student's, on one difference per prompt, and agree: the interval
leaves 0 out exactly where p is below 0.05. In simulation, from 20 prompts on, two equal checkpoints differ with
p < 0.05 in 5 % of cases, and in fewer where hardly a prompt differs at all. (Flipping the signs of the differences
gives an exact test; where many are 0 it rejects in 1 to 3 % instead of 5, and so misses more gains.)

Where all prompts differ by the same amount their variance says nothing. Then p is that of the sign test, 2^(1-n), and
for shares the interval is as wide as what can well have stayed unseen on n prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from groupwise.statistics.intervals import Interval, at_most_unseen, mean_interval
from groupwise.statistics.student import two_sided


@dataclass(frozen=True, slots=True)
class Paired:
    """What changed from one to the other."""

    prompts: int
    """That both have a value of."""
    difference: float
    """Mean over prompts of after - before."""
    interval: Interval | None
    """95 %; None below two prompts."""
    p: float | None
    """Two-sided: how often chance alone gives at least this difference. None below two prompts."""
    better: int
    """Prompts with a higher value after than before."""
    worse: int


def paired(before: Mapping[str, float], after: Mapping[str, float], *, shares: bool = False) -> Paired | None:
    """Compare values by prompt; prompts that only one side has are left out. None where no prompt is left.

    shares: the values lie between 0 and 1.
    """
    differences = sorted(after[prompt] - before[prompt] for prompt in before if prompt in after)
    count = len(differences)
    if not count:
        return None
    mean = math.fsum(differences) / count
    squares = math.fsum((difference - mean) ** 2 for difference in differences)
    interval, p = mean_interval(differences), None
    if count > 1 and differences[-1] - differences[0] < 1e-12:
        p = 1.0 if mean == 0 else 2.0 ** (1 - count)
        if shares:
            unseen = 2 * at_most_unseen(count)  # a prompt that differs otherwise may be at the far end
            interval = max(-1.0, mean - unseen), min(1.0, mean + unseen)
    elif count > 1:
        p = two_sided(mean / math.sqrt(squares / (count - 1) / count), count - 1)
    return Paired(
        count,
        mean,
        interval,
        p,
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
    )
