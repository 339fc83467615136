"""The order of prompts: epochs, visits, and going on after a restart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.errors import DataError
from groupwise.sources.cursor import Cursor

IDS = [f"p{n}" for n in range(5)]


def cursor(ids: list[str] = IDS, seed: int = 0, stage: int = 0, shuffle: bool = True) -> Cursor:
    return Cursor(ids, seed=seed, stage=stage, shuffle=shuffle)


@given(st.integers(1, 7), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_every_prompt_comes_once_per_epoch_and_visits_count_the_epochs(size: int, counts: list[int]) -> None:
    walk = cursor([str(n) for n in range(size)])
    taken = [pair for count in counts for pair in walk.take(count)]
    assert len(taken) == sum(counts)
    for place, (_, visit) in enumerate(taken):
        assert visit == place // size
    for start in range(0, len(taken) - size + 1, size):
        assert sorted(index for index, _ in taken[start : start + size]) == list(range(size))


@given(st.integers(0, 12), st.integers(1, 6))
def test_a_restored_cursor_goes_on_where_it_was(before: int, step: int) -> None:
    whole, broken = cursor(), cursor()
    whole.take(before)
    broken.take(before)
    again = cursor()
    again.restore(json.loads(json.dumps(broken.state())))
    assert again.take(step) == whole.take(step)


def test_the_order_changes_with_epoch_seed_and_stage_alone() -> None:
    ids = [str(n) for n in range(30)]

    def order(**more: int) -> list[int]:
        return [index for index, _ in cursor(ids, **more).take(60)]

    first = order()
    assert first == order()
    assert first[:30] != first[30:]
    assert first[:30] != order(seed=1)[:30]
    assert first[:30] != order(stage=1)[:30]
    assert first[:30] != list(range(30))


def test_without_shuffling_the_order_is_that_of_the_task() -> None:
    assert cursor(shuffle=False).take(7) == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize("ids", [IDS[:4], [*IDS[:4], "other"], IDS[::-1]], ids=["fewer", "another", "reordered"])
def test_other_prompts_than_those_of_the_state_are_refused(ids: list[str]) -> None:
    walk = cursor()
    walk.take(3)
    with pytest.raises(
        DataError, match=rf"the {len(ids)} prompts of stage 0 are not those that the run was begun with"
    ):
        cursor(ids).restore(walk.state())
