"""Rows to a batch and back, and the maps between tokens, completions and groups."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.core.layout import completions_where, mask_completions, per_completion, per_token
from groupwise.core.rows import pack_rows, pack_values, unpack_rows

MASK = [
    [0, 1, 1, 0],  # padded on both sides
    [0, 0, 0, 0],  # empty
    [1, 0, 1, 0],  # masked inside
]


def test_rows_lie_end_to_end_without_padding():
    batch = pack_rows(MASK, group_ids=["b", "a", "b"], rewards=[1, None, 0], truncated=[False, False, True])
    assert batch.loss_mask.tolist() == [True, True, True, False, True]
    assert batch.completion_index.tolist() == [0, 0, 2, 2, 2]
    assert batch.positions.tolist() == [0, 1, 0, 1, 2]
    assert batch.completion_spans == ((0, 2), (2, 2), (2, 5))
    assert batch.group_ids == ("b", "a") and batch.group_index.tolist() == [0, 1, 0]
    assert batch.rewards.nan_to_num(-9).tolist() == [1, -9, 0] and batch.rewards.dtype == torch.float64
    assert batch.finish_reasons == ("stop", "stop", "length")
    assert batch.correct == (None, None, None)


def test_values_keep_their_type_and_lists_become_float64():
    rows = torch.arange(12, dtype=torch.float32).view(3, 4)
    batch = pack_rows(MASK, old_log_probs=rows, ref_log_probs=rows.tolist(), advantages=[1.0, 2.0, 3.0])
    assert batch.old_log_probs.tolist() == [1, 2, 8, 9, 10]
    assert batch.old_log_probs.dtype == torch.float32 and batch.ref_log_probs.dtype == torch.float64
    assert batch.advantages.tolist() == [1, 1, 3, 3, 3]
    assert pack_rows(MASK, advantages=rows).advantages.tolist() == [1, 2, 8, 9, 10]


@settings(max_examples=40)
@given(
    mask=st.integers(0, 5).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=n, max_size=n)
    )
)
def test_unpack_is_the_inverse_of_pack(mask):
    mask = torch.tensor(mask, dtype=torch.bool).view(-1, 4)
    rows = torch.rand(mask.shape)
    back = unpack_rows(pack_values(rows, mask), mask)
    assert torch.equal(back[mask], rows[mask])
    batch = pack_rows(mask)
    assert torch.equal(unpack_rows(batch.loss_mask, mask), mask)
    lengths = per_completion(batch.loss_mask.long(), batch)
    assert torch.equal(lengths, mask.sum(1))
    assert torch.equal(completions_where(batch, batch.loss_mask), mask.any(1))


def test_packing_carries_gradients_both_ways():
    rows = torch.rand(3, 4, requires_grad=True)
    unpack_rows(pack_values(rows, MASK) ** 2, MASK).sum().backward()
    covered = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0]])
    assert torch.equal(rows.grad, 2 * rows.detach() * covered)


def test_prompt_tokens_belong_to_no_completion():
    batch = pack_rows([[1, 1, 1, 1]])
    index = torch.tensor([-1, 0, -1, 0])
    batch = type(batch)(**{**{name: getattr(batch, name) for name in batch.__slots__}, "completion_index": index})
    assert per_token(torch.tensor([7.0]), batch).tolist() == [0, 7, 0, 7]
    assert per_token(torch.tensor([True]), batch).tolist() == [False, True, False, True]
    assert per_completion(torch.tensor([float("nan"), 2.0, float("inf"), 3.0]), batch).tolist() == [5]


def test_masked_completions_keep_their_place():
    batch = mask_completions(pack_rows(MASK), torch.tensor([False, True, True]))
    assert batch.loss_mask.tolist() == [False, False, True, False, True]
    assert len(batch.completion_spans) == 3
    assert completions_where(batch, torch.ones(5, dtype=torch.bool)).tolist() == [False, False, True]
