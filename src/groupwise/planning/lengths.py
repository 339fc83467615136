"""How long completions are, and which of them are decoded at the same time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from groupwise.errors import RunFileError

SPREAD = 0.6
"""Standard deviation of a completion's log-length, where nothing else is known."""

ENOUGH = 4096
"""Quantiles that tell the mean."""

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Lengths:
    """Tokens of completions: log-normal, cut off at the longest. Raises `RunFileError` for impossible numbers."""

    mean: float
    """After the cut."""
    longest: int
    """Where sampling stops."""
    spread: float = SPREAD
    """Standard deviation of the logarithm; 0: all as long as the mean."""

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise RunFileError(f"completions of at most {self.longest} tokens are none", fix="give 1 or more")
        if not 0 < self.mean <= self.longest:
            raise RunFileError(
                f"completions of at most {self.longest} tokens can't have a mean of {self.mean:g}",
                fix="give a mean above 0, and not above the most",
            )
        if not 0 <= self.spread < 5:
            raise RunFileError(f"a spread of {self.spread:g} is none of log-lengths", fix=f"{SPREAD} is usual")

    def of(self, count: int) -> list[int]:
        """So many lengths, quantiles of the distribution, shortest first, whose mean is `mean` to rounding."""
        scale = self._scale(self._shapes(min(count, ENOUGH)))
        return [max(1, round(min(scale * shape, self.longest))) for shape in self._shapes(count)]

    def capped(self, longest: int) -> Lengths:
        """The same completions, cut off earlier."""
        lengths = [min(length, longest) for length in self.of(1000)]
        return Lengths(sum(lengths) / len(lengths), longest, self.spread)

    def dealt(self, count: int) -> list[int]:
        """`of(count)` in an order in which every stretch holds about the same mixture, as groups do."""
        ordered = self.of(count)
        places = sorted(range(count), key=lambda place: (place * GOLDEN) % 1)
        dealt = [0] * count
        for rank, place in enumerate(places):
            dealt[place] = ordered[rank]
        return dealt

    def _shapes(self, count: int) -> list[float]:
        return [math.exp(self.spread * NormalDist().inv_cdf((number + 0.5) / count)) for number in range(count)]

    def _scale(self, shapes: Sequence[float]) -> float:
        """The factor that gives the mean, cut in place: the mean grows with it, so it is halved in on."""
        if self.mean >= self.longest:
            return self.longest / shapes[0]
        low, high = 0.0, self.longest / shapes[0]
        for _ in range(80):
            middle = (low + high) / 2
            mean = sum(min(middle * shape, self.longest) for shape in shapes) / len(shapes)
            low, high = (middle, high) if mean < self.mean else (low, middle)
        return high


@dataclass(frozen=True)
class Stretch:
    """Decoding steps between two changes of what is being decoded."""

    steps: int
    rows: int
    held: float
    """Tokens of its own that a row has, on the average of rows and steps."""
    admitted: int
    """Groups whose prompts are computed before it."""
    finished: int
    """Rows that leave after it."""


def schedule(lengths: Sequence[int], samples: int, most: int) -> Iterator[Stretch]:
    """How an engine decodes groups of `samples` completions with these lengths, at most `most` rows at a time.

    A group is admitted whole as soon as it finds room, or when nothing runs. The first token of a completion is drawn
    from its prompt's logits, so a completion of n tokens takes part in n - 1 decoding steps.
    """
    groups = [list(lengths[start : start + samples]) for start in range(0, len(lengths), samples)]
    most = max(1, most)
    waiting = [group[start : start + most] for group in groups for start in range(0, len(group), most)][::-1]
    running: list[tuple[int, int]] = []  # when a row ends, and when it began
    now = 0
    while waiting or running:
        admitted = 0
        while waiting and (not running or len(running) + len(waiting[-1]) <= most):
            admitted += 1
            for length in waiting.pop():
                heapq.heappush(running, (now + length - 1, now))
        end, rows = running[0][0], len(running)
        held = now + (end - now + 1) / 2 - sum(start for _, start in running) / rows
        finished = 0
        while running and running[0][0] == end:
            heapq.heappop(running)
            finished += 1
        yield Stretch(end - now, rows, held, admitted, finished)
        now = end
