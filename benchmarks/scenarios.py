"""What both sides of a comparison do: the same prompts, lengths, rewards and number of sampled tokens.

Imported by both sides' processes, each with its own libraries, so it needs the standard library alone. Lengths are
fixed beforehand (quantiles of a log-normal distribution, which completions of language models resemble) and no token
ends a completion early, so that both sides sample the same number of tokens whatever they draw.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

SPREAD = 0.6
"""Standard deviation of a completion's log-length."""


@dataclass(frozen=True)
class Scenario:
    """One optimiser step: `groups` prompts with `group_size` completions each."""

    name: str
    groups: int
    prompt_tokens: int
    mean_tokens: int
    max_tokens: int
    group_size: int = 8
    degenerate: float = 0.0
    """Share of groups whose rewards are all equal."""

    def prompts(self) -> list[list[int]]:
        """Token ids of each prompt; any ids cost the same."""
        draw = random.Random(self.prompt_tokens)
        return [[draw.randrange(1000, 40000) for _ in range(self.prompt_tokens)] for _ in range(self.groups)]

    def lengths(self) -> list[int]:
        """Tokens of each completion of a group, in sample order: a mean of `mean_tokens`, none above `max_tokens`."""
        at = [NormalDist().inv_cdf((number + 0.5) / self.group_size) for number in range(self.group_size)]
        shape = [math.exp(SPREAD * value) for value in at]
        low, high = 0.0, float(self.max_tokens)
        for _ in range(60):  # the factor that gives the mean, with the cap in place
            factor = (low + high) / 2
            mean = sum(min(factor * value, self.max_tokens) for value in shape) / self.group_size
            low, high = (factor, high) if mean < self.mean_tokens else (low, factor)
        lengths = [max(1, round(min(high * value, self.max_tokens))) for value in shape]
        random.Random(self.group_size).shuffle(lengths)
        return lengths

    def rewards(self) -> list[list[float]]:
        """1 and 0 in turn; equal in the first `degenerate` share of the groups."""
        tied = round(self.degenerate * self.groups)
        return [
            [float(sample % 2 or group < tied) for sample in range(self.group_size)] for group in range(self.groups)
        ]

    @property
    def completion_tokens(self) -> int:
        """Tokens that a step samples and trains on."""
        return self.groups * sum(self.lengths())


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("S", groups=4, prompt_tokens=58, mean_tokens=4, max_tokens=8),
        Scenario("A", groups=1, prompt_tokens=100, mean_tokens=100, max_tokens=256),
        Scenario("B", groups=1, prompt_tokens=512, mean_tokens=64, max_tokens=128),
        Scenario("D", groups=1, prompt_tokens=128, mean_tokens=512, max_tokens=1024),
        Scenario("A-degenerate", groups=5, prompt_tokens=100, mean_tokens=100, max_tokens=256, degenerate=0.4),
        Scenario("quick", groups=1, prompt_tokens=58, mean_tokens=4, max_tokens=8),
        *(
            Scenario(f"G{size}", groups=1, prompt_tokens=100, mean_tokens=32, max_tokens=96, group_size=size)
            for size in (4, 8, 16, 32)
        ),
    )
}
