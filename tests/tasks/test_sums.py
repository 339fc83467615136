"""The built-in task `sums`."""

import pytest

from groupwise.tasks.sums import Sums


def ids(task, split, seed=0):
    return [row["id"] for row in task.rows(split, seed)]


@pytest.mark.parametrize("digits", [1, 2])
def test_every_sum_is_there_once_and_its_answer_is_right(digits):
    rows = Sums(digits=digits).rows("train", 0)
    assert len({row["id"] for row in rows}) == len(rows) == 100**digits
    for row in rows:
        a, b = row["prompt"].removesuffix("=").split("+")
        assert row["answer"] == row["completion"] == str(int(a) + int(b))


def test_the_test_asks_all_sums_by_default():
    assert sorted(ids(Sums(), "test")) == sorted(ids(Sums(), "train"))


@pytest.mark.parametrize("digits, share, test", [(1, 0.2, 20), (1, 0.4, 40), (2, 0.2, 2000), (1, 0.001, 1)])
def test_held_out_sums_are_never_trained_on_but_their_mirror_images_are(digits, share, test):
    task = Sums(digits=digits, held_out=share)
    held, trained = set(ids(task, "test")), set(ids(task, "train"))
    assert len(held) == test and len(trained) == 100**digits - test and not held & trained
    assert {"+".join(reversed(pair.split("+"))) for pair in held} <= trained


def test_the_seed_changes_the_order_and_not_the_split():
    task = Sums(held_out=0.2)
    assert ids(task, "train", 0) == ids(task, "train", 0) != ids(task, "train", 1)
    assert sorted(ids(task, "train", 0)) == sorted(ids(task, "train", 1))


def test_the_reward_is_the_exact_answer():
    assert Sums().reward() == {"name": "exact", "column": "answer"}
