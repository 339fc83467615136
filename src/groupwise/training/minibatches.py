"""How one rollout's batch is cut into optimiser steps: epochs of minibatches, in a keyed order.

Advantages, whitening and old log-probs belong to the whole rollout and are fixed before; weights are computed for each
optimiser step. A minibatch is part of the rollout, a micro-batch is part of an optimiser step and changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from groupwise.packing import take
from groupwise.run import UpdatesSettings
from groupwise.types import Batch


class Minibatch(NamedTuple):
    """What one optimiser step trains on."""

    completions: list[int]
    """Which of the rollout's batch, in its order."""
    batch: Batch
    """These with their prompts."""


def minibatches(batch: Batch, settings: UpdatesSettings, key: str, *, whole_groups: bool) -> Iterator[Minibatch]:
    """The parts of the optimiser steps that one rollout feeds: `epochs` times `minibatches`, near-equal in groups.

    `whole_groups`: the loss couples the completions of a group, so no minibatch may part them. With one epoch of one
    minibatch the batch itself comes back.
    """
    groups = batch.group_index.tolist()
    if settings.epochs * settings.minibatches == 1:
        yield Minibatch(list(range(len(groups))), batch)
        return
    if settings.split == "completions" and not whole_groups:
        units = [[completion] for completion in range(len(groups))]
    else:
        units = [[c for c, g in enumerate(groups) if g == group] for group in range(len(batch.group_ids))]
    for epoch in range(settings.epochs):
        order = list(range(len(units)))
        random.Random(f"{key}/{epoch}").shuffle(order)
        for part in range(settings.minibatches):
            chosen = order[part * len(order) // settings.minibatches : (part + 1) * len(order) // settings.minibatches]
            completions = sorted(completion for unit in chosen for completion in units[unit])
            yield Minibatch(completions, take(batch, completions))
