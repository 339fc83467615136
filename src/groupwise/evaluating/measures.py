"""What the completions of an evaluation amount to: one value per prompt and measure, and their means with intervals.

greedy        right at temperature 0
avg@n         share of right ones among the n samples
pass@k        one of k samples is right (`statistics.sampling`)
maj@k         the vote of k samples is right, where completions give answers (`answers`)
reward        mean reward of the samples, where it says more than right or wrong; `greedy reward` at temperature 0

Completions that could not be judged are left out. A prompt with fewer than k that were has no pass@k.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from groupwise.evaluating.answers import RIGHT, Reader, vote_of
from groupwise.statistics.intervals import Interval, mean_interval, share_interval
from groupwise.statistics.sampling import majority_at_k, pass_at_k
from groupwise.types import Completion, Group

REWARDS = ("reward", "greedy reward")
"""Measures that are no shares."""

ByPrompt = dict[str, float]
"""Prompt id to value."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean over prompts."""

    value: float
    interval: Interval | None
    """95 %, prompts as the independent draws."""
    prompts: int
    """That have a value."""


def means(values: Mapping[str, ByPrompt]) -> dict[str, Measure]:
    """Each measure's mean over its prompts; measures without any prompt are left out."""
    return {
        name: Measure(
            math.fsum(found.values()) / len(found),
            (mean_interval if name in REWARDS else share_interval)(list(found.values())),
            len(found),
        )
        for name, found in values.items()
        if found
    }


def measure_greedy(groups: Sequence[Group]) -> dict[str, ByPrompt]:
    """Of groups of one completion each, at temperature 0."""
    return {"greedy": _shares(groups)} | _rewards(groups, "greedy reward")


def measure_samples(
    groups: Sequence[Group], samples: int, ks: Sequence[int], reader: Reader | None, tokenizer: PreTrainedTokenizerBase
) -> dict[str, ByPrompt]:
    """Of groups of `samples` completions each; pass@k and maj@k for each of `ks`."""
    values: dict[str, ByPrompt] = {f"avg@{samples}": _shares(groups)}
    for k in ks:
        values[f"pass@{k}"] = {
            group.prompt.id: pass_at_k(len(verdicts), sum(verdicts), k)
            for group in groups
            if len(verdicts := _verdicts(group)) >= k
        }
    if reader is not None:
        votes = {group.prompt.id: _votes(group, reader, tokenizer) for group in groups}
        for k in (k for k in ks if k > 2):  # a vote of one or two is pass@1
            values[f"maj@{k}"] = {
                prompt: majority_at_k(given, {RIGHT}, k) for prompt, given in votes.items() if len(given) >= k
            }
    return values | _rewards(groups, "reward")


def _verdicts(group: Group) -> list[bool]:
    return [score.correct for score in group.scores if score is not None and score.correct is not None]


def _shares(groups: Sequence[Group]) -> ByPrompt:
    return {group.prompt.id: sum(verdicts) / len(verdicts) for group in groups if (verdicts := _verdicts(group))}


def _rewards(groups: Sequence[Group], name: str) -> dict[str, ByPrompt]:
    """Mean reward by prompt; nothing where every reward is its verdict as a number."""
    scores = [score for group in groups for score in group.scores if score is not None and score.value is not None]
    if all(score.correct is not None and score.value == float(score.correct) for score in scores):
        return {}
    values = {
        group.prompt.id: [score.value for score in group.scores if score is not None and score.value is not None]
        for group in groups
    }
    return {name: {prompt: math.fsum(given) / len(given) for prompt, given in values.items() if given}}


def _votes(group: Group, reader: Reader, tokenizer: PreTrainedTokenizerBase) -> list[Hashable | None]:
    """What each judged completion votes for."""
    return [
        vote_of(score, _text(completion, tokenizer), completion.finish_reason != "stop", reader)
        for completion, score in zip(group.completions, group.scores, strict=True)
        if score is not None and score.correct is not None
    ]


def _text(completion: Completion, tokenizer: PreTrainedTokenizerBase) -> str:
    """Without the stop token and other special ones, as rewards read it."""
    ids = list(completion.token_ids)
    said = ids[:-1] if completion.finish_reason == "stop" else ids
    return str(tokenizer.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False))
