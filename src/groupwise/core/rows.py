"""Padded rows [N, width], one completion per row, to a flat `Batch` without prompts and back.

For whoever has arrays and wants to know what an algorithm makes of them: checks, notebooks, other trainers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from groupwise.types import Batch


def pack_rows(
    completion_mask: Any,
    *,
    group_ids: Sequence[str] | None = None,
    rewards: Any = None,
    old_log_probs: Any = None,
    ref_log_probs: Any = None,
    sampler_log_probs: Any = None,
    advantages: Any = None,
    values: Any = None,
    returns: Any = None,
    final_values: Any = None,
    step_rewards: Sequence[Sequence[float | None] | None] | None = None,
    step_ends: Sequence[Sequence[int] | None] | None = None,
    truncated: Sequence[bool] | None = None,
    correct: Sequence[bool | None] | None = None,
    temperature: float = 1.0,
) -> Batch:
    """A `Batch` from rows that may be padded on either side and masked inside.

    completion_mask [N, width]: what counts; a completion reaches from its row's first to its last True, and
    masked tokens in between belong to it. group_ids: N ids in any order, or None for one group. rewards and
    final_values [N], NaN or None where not scored. Log-probs, values and returns [N, width]; advantages [N] or
    [N, width]. step_rewards and step_ends: N sequences or Nones. Tensors keep their type, all else becomes float64.
    Completions keep their order.
    """
    mask = torch.as_tensor(completion_mask).bool()
    covered = _covered(mask)
    count, index = len(mask), covered.nonzero()[:, 0]
    lengths = covered.sum(1)
    ends = lengths.cumsum(0).tolist()
    ids = list(group_ids) if group_ids is not None else ["0"] * count
    unique = tuple(dict.fromkeys(ids))
    assert len(ids) == count, f"{len(ids)} group ids for {count} rows"
    return Batch(
        token_ids=torch.zeros(len(index), dtype=torch.int64),
        positions=(covered.cumsum(1) - 1)[covered],
        loss_mask=mask[covered],
        completion_index=index,
        temperature=temperature,
        group_ids=unique,
        prompt_spans=((0, 0),) * len(unique),
        completion_spans=tuple(zip([0, *ends[:-1]], ends, strict=True)) if count else (),
        group_index=torch.tensor([unique.index(id) for id in ids], dtype=torch.int64),
        rewards=torch.full((count,), torch.nan, dtype=torch.float64) if rewards is None else floats(rewards).double(),
        correct=tuple(correct) if correct is not None else (None,) * count,
        finish_reasons=tuple("length" if cut else "stop" for cut in (truncated or [False] * count)),
        step_rewards=_tuples(step_rewards, count),
        step_ends=_tuples(step_ends, count),
        sampler_log_probs=_flat(sampler_log_probs, covered),
        old_log_probs=_flat(old_log_probs, covered),
        ref_log_probs=_flat(ref_log_probs, covered),
        advantages=_flat(advantages, covered),
        values=_flat(values, covered),
        returns=_flat(returns, covered),
        final_values=None if final_values is None else floats(final_values),
    )


def pack_values(rows: Any, completion_mask: Any) -> Tensor:
    """[N, width] -> [T], the tokens that `pack_rows` takes; differentiable."""
    return floats(rows)[_covered(torch.as_tensor(completion_mask).bool())]


def unpack_rows(values: Tensor, completion_mask: Any) -> Tensor:
    """[T] -> [N, width], 0 at padding: the inverse of `pack_values`; differentiable."""
    covered = _covered(torch.as_tensor(completion_mask).bool())
    return values.new_zeros(covered.shape).masked_scatter(covered, values)


def _covered(mask: Tensor) -> Tensor:
    """[N, width] bool: from the first True of each row to its last."""
    return (mask.cumsum(1) > 0) & (mask.flip(1).cumsum(1).flip(1) > 0)


def _flat(rows: Any, covered: Tensor) -> Tensor | None:
    if rows is None:
        return None
    values = floats(rows)
    return (values if values.dim() == 2 else values[:, None].expand_as(covered))[covered]


def _tuples(rows: Any, count: int) -> tuple:
    """One tuple per completion; None where there is none."""
    return (None,) * count if rows is None else tuple(None if row is None else tuple(row) for row in rows)


def floats(values: Any) -> Tensor:
    """Tensors as they are if they hold fractions; other tensors, arrays and lists as float64 with None for NaN."""
    if isinstance(values, Tensor):
        return values if values.is_floating_point() else values.double()
    if type(values).__module__ == "numpy" and values.dtype == object:
        values = values.tolist()
    return torch.as_tensor(_without_none(values), dtype=torch.float64)


def _without_none(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_without_none(value) for value in values]
    return torch.nan if values is None else values
