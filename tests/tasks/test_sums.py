"""The built-in task `sums`."""

import pytest

from groupwise.tasks.sums import Sums


@pytest.mark.parametrize("digits, train, test", [(1, 80, 20), (2, 8000, 2000)])
def test_the_splits_share_all_sums_among_them_and_answers_are_right(digits, train, test):
    task = Sums(digits=digits)
    rows = {split: task.rows(split, 0) for split in ("train", "test")}
    assert (len(rows["train"]), len(rows["test"])) == (train, test)
    assert len({row["id"] for row in [*rows["train"], *rows["test"]]}) == 100**digits
    for row in [*rows["train"], *rows["test"]]:
        a, b = row["prompt"].removesuffix("=").split("+")
        assert row["answer"] == row["completion"] == str(int(a) + int(b))


def test_held_out_sums_have_their_mirror_image_among_the_training_sums():
    train = {row["id"] for row in Sums().rows("train", 0)}
    test = {row["id"] for row in Sums().rows("test", 0)}
    assert {"+".join(reversed(pair.split("+"))) for pair in test} <= train


def test_the_seed_changes_the_order_and_not_the_split():
    first, second = Sums().rows("train", 0), Sums().rows("train", 1)
    assert first != second and first == Sums().rows("train", 0)
    assert sorted(row["id"] for row in first) == sorted(row["id"] for row in second)


def test_the_reward_is_the_exact_answer():
    assert Sums().reward() == {"name": "exact", "column": "answer"}
