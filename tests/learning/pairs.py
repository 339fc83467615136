"""Preferences of right answers over wrong ones, and how often a policy shares them."""

from __future__ import annotations

from pathlib import Path

import torch
from sums_runs import SUMS

from groupwise.models.loading import load_model
from groupwise.models.policy import Policy
from groupwise.models.settings import ModelSettings
from groupwise.packing import pack
from groupwise.tasks.rendering import demonstration_tokens, render
from groupwise.types import Completion, Group, Segment

PAIRS = [
    {"id": f"{row['id']}={wrong}", "prompt": row["prompt"], "chosen": row["answer"], "rejected": str(wrong)}
    for row in SUMS
    for wrong in range(7)
    if str(wrong) != row["answer"]
]
"""Every sum with each of the six wrong answers."""
HELD_OUT = PAIRS[::3]
"""A third: of each sum two wrong answers that training never sees."""
TRAINED_ON = [pair for pair in PAIRS if pair not in HELD_OUT]


def log_ratios(model: Path) -> list[tuple[float, float]]:
    """Summed log-probs of the chosen and the rejected completion of each held-out pair."""
    policy = Policy.of(load_model(ModelSettings(name=str(model), dtype="float32"), seed=0, say=lambda line: None))
    groups = [_group(pair, policy) for pair in HELD_OUT]
    batch = pack(groups, temperature=1.0)
    with torch.no_grad():
        log_probs = policy.forward.log_probs(batch)[0]
    totals = [float(log_probs[begin:end].sum()) for begin, end in batch.completion_spans]
    return list(zip(totals[::2], totals[1::2], strict=True))


def pair_accuracy(model: Path, reference: Path) -> float:
    """The share of held-out pairs whose chosen completion has the higher implied reward; a tie counts half."""
    margins = [
        (chosen - chosen_before) - (rejected - rejected_before)
        for (chosen, rejected), (chosen_before, rejected_before) in zip(
            log_ratios(model), log_ratios(reference), strict=True
        )
    ]
    return sum(0.5 if margin == 0 else float(margin > 0) for margin in margins) / len(margins)


def _group(pair: dict[str, str], policy: Policy) -> Group:
    written = [demonstration_tokens(pair, policy.tokenizer, column=column) for column in ("chosen", "rejected")]
    completions = tuple(Completion((Segment(ids, None),), "stop") for ids in written)
    return Group(pair["id"], render(pair, policy.tokenizer), completions, (None, None))
