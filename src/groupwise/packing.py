"""Groups to a `Batch` and back, and the cut of a batch into micro-batches.

    pack(groups) -> Batch: [ prompt A | A0 | A1 | ... | prompt B | B0 | ... ]

A group's prompt stands once on the token axis. Nothing is padded, nothing is re-tokenised: the ids that were sampled
are the ids that are trained on. `take` gives the sub-batch of some completions with their prompts, `unpack` is the
exact inverse of `pack`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from groupwise.types import Batch, Group, Span

TOKEN_FIELDS = (
    "token_ids",
    "positions",
    "loss_mask",
    "sampler_log_probs",
    "old_log_probs",
    "ref_log_probs",
    "values",
    "returns",
    "advantages",
    "token_weights",
    "value_weights",
    "likelihood_weights",
)
"""The `[T]` fields that a cut carries along; `completion_index` is the one that must be renumbered."""


def pack(groups: Sequence[Group], *, temperature: float) -> Batch:
    """Lay groups end to end on one token axis, in order; completions keep their sample order.

    The loss mask is True on trainable tokens of completions that are scored, or that nothing scores (demonstrations);
    a completion that could not be scored is masked in every term. On the CPU; move it with `to`.
    """
    token_ids: list[int] = []
    positions: list[int] = []
    mask: list[bool] = []
    index: list[int] = []
    log_probs: list[float] = []
    prompt_spans: list[Span] = []
    completion_spans: list[Span] = []
    group_index: list[int] = []
    for number, group in enumerate(groups):
        prompt = group.prompt.token_ids
        prompt_spans.append((len(token_ids), len(token_ids) + len(prompt)))
        token_ids += prompt
        positions += range(len(prompt))
        mask += [False] * len(prompt)
        index += [-1] * len(prompt)
        log_probs += [0.0] * len(prompt)
        for completion, score in zip(group.completions, group.scores, strict=True):
            start = len(token_ids)
            counts = score is None or score.value is not None
            for segment in completion.segments:
                token_ids += segment.token_ids
                mask += [segment.trainable and counts] * len(segment.token_ids)
                log_probs += segment.sampler_log_probs or [0.0] * len(segment.token_ids)
            length = len(token_ids) - start
            positions += range(len(prompt), len(prompt) + length)
            index += [len(completion_spans)] * length
            completion_spans.append((start, len(token_ids)))
            group_index.append(number)
    completions = [completion for group in groups for completion in group.completions]
    scores = [score for group in groups for score in group.scores]
    drawn = any(segment.sampler_log_probs is not None for completion in completions for segment in completion.segments)
    return Batch(
        token_ids=torch.tensor(token_ids, dtype=torch.int64),
        positions=torch.tensor(positions, dtype=torch.int64),
        loss_mask=torch.tensor(mask, dtype=torch.bool),
        completion_index=torch.tensor(index, dtype=torch.int64),
        temperature=temperature,
        group_ids=tuple(group.id for group in groups),
        prompt_spans=tuple(prompt_spans),
        completion_spans=tuple(completion_spans),
        group_index=torch.tensor(group_index, dtype=torch.int64),
        rewards=torch.tensor(
            [float("nan") if score is None or score.value is None else score.value for score in scores],
            dtype=torch.float64,
        ),
        correct=tuple(None if score is None else score.correct for score in scores),
        finish_reasons=tuple(completion.finish_reason for completion in completions),
        step_rewards=tuple(None if score is None else score.step_rewards for score in scores),
        step_ends=tuple(None if score is None else score.step_ends for score in scores),
        sampler_log_probs=torch.tensor(log_probs, dtype=torch.float32) if drawn else None,
    )


def unpack(batch: Batch) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Per group: the prompt's token ids, and those of each completion in sample order."""
    ids = batch.token_ids.tolist()
    groups: list[tuple[tuple[int, ...], list[tuple[int, ...]]]] = [
        (tuple(ids[start:end]), []) for start, end in batch.prompt_spans
    ]
    for number, (start, end) in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
        groups[number][1].append(tuple(ids[start:end]))
    return groups


def token_index(batch: Batch, completions: Sequence[int]) -> Tensor:
    """[t] int64: where the tokens of `take(batch, completions)` stand on the batch's own axis."""
    pieces, previous = [], -1
    for completion in completions:
        group = int(batch.group_index[completion])
        if group != previous:
            pieces.append(torch.arange(*batch.prompt_spans[group]))
            previous = group
        pieces.append(torch.arange(*batch.completion_spans[completion]))
    index = torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.int64)
    return index.to(batch.token_ids.device)


def take(batch: Batch, completions: Sequence[int]) -> Batch:
    """The sub-batch of these completions (increasing indices), each group's prompt kept once before its own.

    Every per-token value is carried along unchanged, so weights that were computed over the whole optimiser step
    stay what they are.
    """
    assert list(completions) == sorted(set(completions)), "completions must be increasing"
    device = batch.token_ids.device
    chosen = torch.tensor(list(completions), dtype=torch.int64, device=device)
    groups, group_index = batch.group_index[chosen].unique_consecutive(return_inverse=True)
    prompt_spans: list[Span] = []
    completion_spans: list[Span] = []
    length = 0
    for completion, group in zip(completions, group_index.tolist(), strict=True):
        if group == len(prompt_spans):
            start, end = batch.prompt_spans[int(groups[group])]
            prompt_spans.append((length, length + end - start))
            length += end - start
        start, end = batch.completion_spans[completion]
        completion_spans.append((length, length + end - start))
        length += end - start
    index = token_index(batch, completions)
    renumbered = torch.full((len(batch.completion_spans) + 1,), -1, device=device)  # the last place serves prompts (-1)
    renumbered[chosen] = torch.arange(len(chosen), device=device)

    def pick(values: tuple) -> tuple:
        return tuple(values[completion] for completion in completions)

    return replace(
        batch,
        **{name: value[index] for name in TOKEN_FIELDS if (value := getattr(batch, name)) is not None},
        completion_index=renumbered[batch.completion_index[index]],
        group_ids=tuple(batch.group_ids[group] for group in groups.tolist()),
        prompt_spans=tuple(prompt_spans),
        completion_spans=tuple(completion_spans),
        group_index=group_index,
        rewards=batch.rewards[chosen],
        correct=pick(batch.correct),
        finish_reasons=pick(batch.finish_reasons),
        step_rewards=pick(batch.step_rewards),
        step_ends=pick(batch.step_ends),
        final_values=None if batch.final_values is None else batch.final_values[chosen],
    )


def micro_batches(
    batch: Batch, completions: Sequence[int], max_tokens: int, *, whole_groups: bool = False
) -> Iterator[list[int]]:
    """Cut completions into lists whose sub-batches hold at most `max_tokens` tokens, in order.

    A completion is never split; a group is split only when it alone is over the limit, or with `whole_groups` not even
    then. Parts of a split group hold nothing else, and each counts the prompt, whether or not it is computed again. One
    completion over the limit makes a micro-batch of its own.
    """
    groups = batch.group_index.tolist()
    prompts = [end - start for start, end in batch.prompt_spans]
    lengths = [end - start for start, end in batch.completion_spans]
    sizes = list(prompts)
    for completion in completions:
        sizes[groups[completion]] += lengths[completion]
    whole = [whole_groups or size <= max_tokens for size in sizes]
    part: list[int] = []
    tokens, previous = 0, -1
    for completion in completions:
        group, length = groups[completion], lengths[completion]
        if group == previous:
            ended = not whole[group] and tokens + length > max_tokens
        else:
            ended = tokens + sizes[group] > max_tokens or not (whole[group] and whole[previous])
        if part and ended:
            yield part
            part, tokens = [], 0
        tokens += length if part and group == previous else prompts[group] + length
        part.append(completion)
        previous = group
    if part:
        yield part


def predictors(batch: Batch) -> Tensor:
    """[T] int64: the position whose hidden state predicts each token; -1 at prompt positions.

    The first token of every completion of a group is predicted by the last token of the shared prompt.
    """
    rows = torch.arange(-1, batch.token_ids.numel() - 1, device=batch.token_ids.device)
    rows[batch.completion_index < 0] = -1
    for number, (start, end) in zip(batch.group_index.tolist(), batch.completion_spans, strict=True):
        if end > start:
            rows[start] = batch.prompt_spans[number][1] - 1
    return rows


def to(batch: Batch, device: torch.device) -> Batch:
    """The batch with every tensor on `device`."""
    names = (*TOKEN_FIELDS, "completion_index", "group_index", "rewards", "final_values")
    return replace(batch, **{name: value.to(device) for name in names if (value := getattr(batch, name)) is not None})
