"""Which completions of a group are trained on: right ones, and pairs of a right and a wrong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from groupwise.core.layout import per_completion
from groupwise.errors import DataError
from groupwise.types import Batch, Completion, Group


def answer_ids(completion: Completion) -> tuple[int, ...]:
    """The token ids without the stop token that ended them."""
    ids = completion.token_ids
    return ids[:-1] if completion.finish_reason == "stop" else ids


def right_completions(
    group: Group, *, accept_truncated: bool = False, deduplicate: bool = False, limit: int | None = None
) -> list[int]:
    """Indices of the right completions, in sample order: each answer once, and at most `limit` of them, if asked."""
    found: list[int] = []
    seen: set[tuple[int, ...]] = set()
    for index, (completion, score) in enumerate(zip(group.completions, group.scores, strict=True)):
        if score is None or score.value is None or score.correct is not True:
            continue
        if completion.finish_reason != "stop" and not accept_truncated:
            continue
        ids = answer_ids(completion)
        if deduplicate and ids in seen:
            continue
        seen.add(ids)
        found.append(index)
    return found if limit is None else found[:limit]


def take_completions(group: Group, indices: Sequence[int]) -> Group:
    """The group with these completions alone, in this order."""
    return replace(
        group,
        completions=tuple(group.completions[index] for index in indices),
        scores=tuple(group.scores[index] for index in indices),
    )


def preference_pairs(group: Group, limit: int = 1) -> list[Group]:
    """Pairs out of a scored group, chosen completion first: the best right ones against the worst wrong ones.

    Right and wrong are verdicts; best and worst go by reward, sample order where it is equal. Completions without a
    score or a verdict, and pairs of equal rewards or tokens, are left out. A pair's id is the group's with a number.
    """
    scored = [
        (score.value, index, score.correct)
        for index, score in enumerate(group.scores)
        if score is not None and score.value is not None and score.value == score.value
    ]
    best = sorted((item for item in scored if item[2] is True), key=lambda item: (-item[0], item[1]))
    worst = sorted((item for item in scored if item[2] is False), key=lambda item: (item[0], item[1]))
    pairs: list[Group] = []
    for (high, chosen, _), (low, rejected, _) in zip(best, worst, strict=False):
        if high > low and answer_ids(group.completions[chosen]) != answer_ids(group.completions[rejected]):
            pairs.append(replace(take_completions(group, (chosen, rejected)), id=f"{group.id}/{len(pairs)}"))
    return [replace(pair, scores=(None, None)) for pair in pairs[:limit]]


def unusable_pair(group: Group) -> str | None:
    """None, or why a pair is dropped. Raises `DataError` for a group that isn't a pair, or has an empty completion."""
    if len(group.completions) != 2:
        raise DataError(
            f"pair {group.id} has {len(group.completions)} completions", fix="give a chosen and a rejected one"
        )
    chosen, rejected = (completion.token_ids for completion in group.completions)
    if not chosen or not rejected:
        raise DataError(f"pair {group.id} has an empty completion", fix="leave such pairs out of the data")
    return "both completions are the same" if chosen == rejected else None


def chosen_completions(batch: Batch) -> Tensor:
    """[N] bool: the first completion of each pair. Raises `DataError` where groups aren't pairs."""
    members: dict[int, list[int]] = {}
    for completion, group in enumerate(batch.group_index.tolist()):
        members.setdefault(group, []).append(completion)
    flags = torch.zeros(len(batch.completion_spans), dtype=torch.bool, device=batch.rewards.device)
    for group, pair in members.items():
        if len(pair) != 2:
            raise DataError(
                f"pair {batch.group_ids[group]} has {len(pair)} completions", fix="give a chosen and a rejected one"
            )
        flags[pair[0]] = True
    return flags


def need_tokens(batch: Batch) -> None:
    """Raise `DataError` for a pair of which one side has no token that counts."""
    empty = per_completion(batch.loss_mask.long(), batch) == 0
    if empty.any():
        pair = batch.group_ids[int(batch.group_index[empty][0])]
        raise DataError(f"pair {pair} has a completion without a token", fix="leave out pairs with an empty side")
