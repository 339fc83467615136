"""The five aggregations against sums written out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from groupwise.core.rows import pack_rows, unpack_rows
from groupwise.core.weights import FORMULAS, token_weights, weighted_sum
from groupwise.errors import RunFileError

# group a: lengths 4 and 2; group b: lengths 3 (one more masked inside) and 0; group c: nothing
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
GROUPS = ["a", "a", "b", "b", "c"]

EXPECTED = {
    ("seq-mean-token-mean", "all"): [1 / 20, 1 / 10, 1 / 15],
    ("seq-mean-token-mean", "nonempty"): [1 / 12, 1 / 6, 1 / 9],
    ("token-mean", "all"): [1 / 9] * 3,
    ("token-mean", "nonempty"): [1 / 9] * 3,
    ("group-token-mean", "all"): [1 / 18, 1 / 18, 1 / 9],
    ("group-token-mean", "nonempty"): [1 / 12, 1 / 12, 1 / 6],
    ("seq-mean-token-sum", "all"): [1 / 5] * 3,
    ("seq-mean-token-sum", "nonempty"): [1 / 3] * 3,
    ("seq-mean-token-sum-norm", "all"): [1 / 40] * 3,
    ("seq-mean-token-sum-norm", "nonempty"): [1 / 24] * 3,
}


@pytest.mark.parametrize(("mode", "denominator"), EXPECTED)
def test_weights(mode, denominator):
    batch = pack_rows(MASK, group_ids=GROUPS)
    weights = token_weights(batch, mode, denominator=denominator, length_constant=8)
    expected = torch.tensor([*EXPECTED[mode, denominator], 0.0, 0.0])[:, None] * MASK
    torch.testing.assert_close(unpack_rows(weights, MASK), expected)
    assert weights.dtype == torch.float32


@pytest.mark.parametrize("mode", FORMULAS)
def test_nothing_to_weigh_divides_by_nothing(mode):
    for mask in (torch.zeros(2, 3), torch.zeros(0, 3)):
        for denominator in ("all", "nonempty"):
            batch = pack_rows(mask)
            assert token_weights(batch, mode, denominator=denominator, length_constant=8).numel() == 0
            masked = replace(pack_rows(torch.ones(2, 3)), loss_mask=torch.zeros(6, dtype=torch.bool))
            assert (token_weights(masked, mode, denominator=denominator, length_constant=8) == 0).all()


def test_one_reduction_per_step_and_it_carries_the_counts():
    seen = []

    def reduce(tensor):
        seen.append(tensor.tolist())
        return tensor

    batch = pack_rows(MASK, group_ids=GROUPS)
    token_weights(batch, "token-mean", reduce)
    token_weights(batch, "token-mean", reduce, denominator="nonempty")
    assert seen == [[9, 5, 3], [9, 3, 2]]


@pytest.mark.parametrize("length", [None, 0])
def test_constant_length_must_be_given(length):
    with pytest.raises(RunFileError, match="set length_constant"):
        token_weights(pack_rows(MASK), "seq-mean-token-sum-norm", length_constant=length)


def test_weighted_sum_leaves_out_what_is_masked():
    losses = torch.tensor([1.0, float("nan"), 2.0, float("inf")], requires_grad=True)
    batch = pack_rows([[1, 0, 1]] + [[0, 0, 0]])
    batch = replace(batch, token_weights=torch.full((3,), 0.5))
    total = weighted_sum(losses[:3], batch)
    total.backward()
    assert total.item() == 1.5 and losses.grad.tolist() == [0.5, 0, 0.5, 0]
