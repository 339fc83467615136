"""How one rollout's batch is cut into optimiser steps: epochs of minibatches, in a keyed order.

Advantages, whitening and old log-probs belong to the whole rollout and are fixed before; weights are computed for each
optimiser step. A minibatch is part of the rollout, a micro-batch is part of an optimiser step and changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from groupwise.packing import take
from groupwise.run import UpdatesSettings
from groupwise.types import Batch


def minibatches(batch: Batch, settings: UpdatesSettings, key: str, *, whole_groups: bool) -> Iterator[Batch]:
    """The batches of the optimiser steps that one rollout feeds: `epochs` times `minibatches`, near-equal in groups.

    `whole_groups`: the loss couples the completions of a group, so no minibatch may part them. With one epoch of one
    minibatch the batch itself comes back.
    """
    if settings.epochs * settings.minibatches == 1:
        yield batch
        return
    groups = batch.group_index.tolist()
    if settings.split == "completions" and not whole_groups:
        units = [[completion] for completion in range(len(groups))]
    else:
        units = [[c for c, g in enumerate(groups) if g == group] for group in range(len(batch.group_ids))]
    for epoch in range(settings.epochs):
        order = list(range(len(units)))
        random.Random(f"{key}/{epoch}").shuffle(order)
        for part in range(settings.minibatches):
            chosen = order[part * len(order) // settings.minibatches : (part + 1) * len(order) // settings.minibatches]
            yield take(batch, sorted(completion for unit in chosen for completion in units[unit]))
