"""Lengths of completions and what an engine decodes at the same time: everything sampled is decoded exactly once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.errors import UserError
from groupwise.planning.lengths import Lengths, schedule


@given(st.integers(2, 2000), st.floats(0.05, 1.0), st.floats(0.0, 1.2), st.integers(1, 300))
def test_lengths_have_their_mean_and_their_most(longest, share, spread, count):
    mean = max(1.0, share * longest)
    lengths = Lengths(mean, longest, spread).of(count)
    assert lengths == sorted(lengths) and lengths[0] >= 1 and lengths[-1] <= longest
    assert sum(lengths) / count == pytest.approx(mean, abs=0.51 + mean * 0.001 + (lengths[0] == 1))


def test_equal_lengths():
    assert Lengths(32, 32).of(5) == [32] * 5
    assert Lengths(20, 64, spread=0).of(3) == [20] * 3


def test_dealt_lengths_are_the_same_and_groups_are_alike():
    lengths = Lengths(100, 1000)
    dealt = lengths.dealt(160)
    assert sorted(dealt) == lengths.of(160)
    means = [sum(dealt[start : start + 16]) / 16 for start in range(0, 160, 16)]
    assert max(means) < 1.4 * min(means)


def test_half_the_most_shortens_only_what_is_longer():
    lengths = Lengths(100, 400)
    capped = lengths.capped(200)
    assert capped.longest == 200 and 80 < capped.mean < 100
    assert lengths.capped(400).mean == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize(("mean", "longest"), [(10, 0), (0, 10), (-3, 10), (11, 10), (10, -5)])
def test_impossible_lengths_are_refused_in_one_line(mean, longest):
    with pytest.raises(UserError) as error:
        Lengths(mean, longest)
    assert "\n" not in str(error.value) and error.value.fix


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 20))
def test_every_token_but_the_first_is_decoded_once(lengths, samples, most):
    stretches = list(schedule(lengths, samples, most))
    assert sum(one.rows * one.steps for one in stretches) == sum(length - 1 for length in lengths)
    assert sum(one.finished for one in stretches) == len(lengths)
    assert all(1 <= one.rows <= max(most, 1) and one.finished >= 1 for one in stretches)
    held = sum(one.rows * one.steps * one.held for one in stretches)
    assert held == pytest.approx(sum((length - 1) * length / 2 for length in lengths))  # 1 + 2 + ... before each


def test_groups_enter_when_they_find_room():
    stretches = list(schedule([3, 5, 3, 5, 3, 5], samples=2, most=4))
    assert [(one.admitted, one.rows, one.steps, one.finished) for one in stretches] == [
        (2, 4, 2, 2),
        (1, 4, 2, 3),
        (0, 1, 2, 1),
    ]
