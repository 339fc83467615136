"""Keyed uniform numbers: the same for the same key on any machine, and uniform over keys and positions."""

from dataclasses import replace

import numpy as np
import pytest

from groupwise.engines.draws import stream, uniforms
from groupwise.types import DrawKey

KEY = DrawKey(seed=7, purpose="train", stage=0, prompt_id="row-3", visit=1, sample=2)


def test_first_numbers_of_a_key_are_what_they_always_were():
    """A change here would change every run that anybody repeats."""
    assert stream(KEY) == 16203508553201145305
    numbers = [0.1523676638821032, 0.12285860605676413, 0.20512471251966446, 0.8704938025881197]
    assert uniforms([stream(KEY)] * 4, range(4)).tolist() == numbers


def test_the_generator_is_splitmix64():
    """From seed 1234567 its first outputs are known."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert uniforms([1234567] * 5, range(5)).tolist() == [(x >> 11) / 2**53 for x in known]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"purpose": "eval"},
        {"stage": 1},
        {"prompt_id": "row-4"},
        {"visit": 2},
        {"sample": 3},
        {"turn": 1},
        {"stage": 11, "prompt_id": "row-3"},
    ],
)
def test_every_part_of_a_key_counts(change):
    assert stream(replace(KEY, **change)) != stream(KEY)


def test_parts_of_a_key_do_not_run_together():
    assert stream(replace(KEY, visit=1, sample=12)) != stream(replace(KEY, visit=11, sample=2))


def test_numbers_depend_neither_on_order_nor_on_company():
    streams = [stream(replace(KEY, sample=sample)) for sample in range(6)]
    positions = [3, 0, 1000, 7, 7, 2]
    together = uniforms(streams, positions)
    assert uniforms(streams[::-1], positions[::-1]).tolist() == together[::-1].tolist()
    alone = [uniforms([one], [place])[0] for one, place in zip(streams, positions, strict=True)]
    assert alone == together.tolist()


@pytest.mark.parametrize("axis", ["positions", "samples", "visits"])
def test_numbers_are_uniform_and_neighbours_are_independent(axis):
    count = 20_000
    if axis == "positions":
        numbers = uniforms([stream(KEY)] * count, range(count))
    else:
        field = axis.removesuffix("s")
        numbers = uniforms([stream(replace(KEY, **{field: n})) for n in range(count)], [0] * count)
    assert numbers.dtype == np.float64 and numbers.min() >= 0 and numbers.max() < 1
    expected = count / 100
    chi_square = ((np.bincount((numbers * 100).astype(int), minlength=100) - expected) ** 2 / expected).sum()
    assert 45 < chi_square < 175  # 99 degrees of freedom; one in 10^5 lies outside
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4.5 / count**0.5
