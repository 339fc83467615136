"""What the judges learn from: samples of the start as pairs of completions, and as completions with labelled steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from groupwise.core.selection import answer_ids, preference_pairs
from groupwise.types import Group

PAIRS_PER_SUM = 4


def pair_rows(groups: Sequence[Group], tokenizer: Any) -> list[dict[str, Any]]:
    """A right and a wrong sample of the same sum per row. Samples that were cut off are left out."""
    return [
        {"id": pair.id, "prompt": pair.prompt.text, "chosen": chosen, "rejected": rejected}
        for group in groups
        for pair in preference_pairs(group, PAIRS_PER_SUM)
        if all(completion.finish_reason == "stop" for completion in pair.completions)
        for chosen, rejected in [[tokenizer.decode(list(answer_ids(one))) for one in pair.completions]]
    ]


def step_rows(groups: Sequence[Group], tokenizer: Any) -> list[dict[str, Any]]:
    """Each different sample of a sum with a label per step. A step ends before the `=` after it, and is right where it
    is the sum with its first numbers added up, and so were all before it."""
    return [
        {
            "id": f"{group.id}/{number}",
            "prompt": group.prompt.text,
            "completion": text,
            "step_ends": [end - 1 for end in accumulate(len(step) + 1 for step in text.split("="))],
            "labels": labels(text.split("="), group.prompt.columns["numbers"]),
        }
        for group in groups
        for number, text in enumerate(texts(group, tokenizer))
    ]


def labels(steps: Sequence[str], numbers: Sequence[int]) -> list[int]:
    """1 or 0 for each step."""
    left = ["+".join(map(str, [sum(numbers[:now]), *numbers[now:]])) for now in range(2, len(numbers) + 1)]
    right = [place < len(left) and step == left[place] for place, step in enumerate(steps)]
    return list(accumulate(map(int, right), min))


def texts(group: Group, tokenizer: Any) -> Iterator[str]:
    """The different answers of a group that were ended by the model and have no empty step."""
    finished = [one for one in group.completions if one.finish_reason == "stop"]
    for text in dict.fromkeys(tokenizer.decode(list(answer_ids(one))) for one in finished):
        if all(step.strip() for step in text.split("=")):
            yield text
