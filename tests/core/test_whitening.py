"""Whitening: what it divides by, and what it leaves alone."""

from __future__ import annotations

import pytest
import torch

from groupwise.core.whitening import whiten

ALL = torch.ones(4, dtype=torch.bool)


def test_whitened_values_have_mean_zero_and_unit_variance():
    values = torch.tensor([1.0, 2.0, 4.0, float("nan")])
    mask = torch.tensor([True, True, True, False])
    result = whiten(values, mask)
    assert result.values[3] == 0 and not result.degenerate
    assert result.values[:3].mean().item() == pytest.approx(0, abs=1e-12)
    assert result.values[:3].std(correction=0).item() == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("values", [[0.1] * 4, [0.3, 0.3, 0.1 + 0.2, 0.3], [0.0] * 4])
def test_tied_values_are_kept_or_zero_and_flagged(values):
    values = torch.tensor(values, dtype=torch.float64)
    kept, zero = whiten(values, ALL), whiten(values, ALL, when_tied="zero")
    assert kept.degenerate and zero.degenerate
    assert torch.equal(kept.values, values) and (zero.values == 0).all()


def test_one_value_has_no_spread():
    result = whiten(torch.tensor([3.0, 1.0, 1.0, 1.0]), torch.tensor([True, False, False, False]), when_tied="zero")
    assert result.degenerate and (result.values == 0).all()


def test_statistics_are_those_of_all_ranks():
    both = torch.tensor([1.0, 5.0, 2.0, 7.0])
    other = torch.tensor([1.0, 5.0])
    mask = torch.ones(2, dtype=torch.bool)
    centre = both.double().mean()
    sums = iter(
        [
            torch.stack([other.double().sum(), other.double().square().sum(), torch.tensor(2.0).double()]),
            (other - centre).square().sum(),
        ]
    )
    result = whiten(both[2:], mask, reduce=lambda mine: mine + next(sums))
    torch.testing.assert_close(result.values, whiten(both, ALL).values[2:])
