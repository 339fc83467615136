"""The built-in task `instructions`: its rows and its reward."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from groupwise.errors import DataError
from groupwise.tasks.families import FAMILIES
from groupwise.tasks.instructions import DEFAULT_FAMILIES, Instructions, verify

EVERYTHING = Instructions(families=tuple(FAMILIES), variants=4, train_rows=900, test_rows=150)


@dataclass
class Answer:
    clean_text: str
    columns: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"


def text_of(row):
    return row["messages"][0]["content"]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("seed", range(5))
def test_every_row_is_right_by_its_own_completion(split, seed):
    for row in EVERYTHING.rows(split, seed):
        score = verify(Answer(row["completion"], row))
        assert score.value == 1.0 and score.correct is True and score.parts == {row["family"]: 1.0}


@pytest.mark.parametrize("seed", range(5))
def test_ids_and_texts_are_different_and_the_splits_share_none(seed):
    train, test = EVERYTHING.rows("train", seed), EVERYTHING.rows("test", seed)
    rows = [*train, *test]
    assert len(train) == 900 and len(test) == 150
    assert len({row["id"] for row in rows}) == len({text_of(row) for row in rows}) == len(rows)


def test_rows_come_from_the_seed_alone_and_begin_alike_whatever_their_number():
    few, many = Instructions(train_rows=10), Instructions(train_rows=100)
    assert few.rows("train", 3) == many.rows("train", 3)[:10] == Instructions(train_rows=10).rows("train", 3)
    assert few.rows("train", 3) != few.rows("train", 4)


def test_rows_cycle_through_the_families_about_varied_topics():
    rows = Instructions().rows("train", 0)
    assert tuple(row["family"] for row in rows[:12]) == DEFAULT_FAMILIES * 2
    one_family = [row["id"].split(".")[1] for row in rows[::6]]
    assert len(set(one_family[:48])) == 48


def test_variants_widen_what_is_asked_for():
    asked = {}
    for variants in (1, 2):
        task = Instructions(families=("last_word",), variants=variants)
        asked[variants] = {row["parameters"]["word"] for row in task.rows("test", 0)}
    assert asked == {1: {"today"}, 2: {"today", "again"}}


def test_rows_are_json():
    rows = EVERYTHING.rows("train", 0)
    assert json.loads(json.dumps(rows)) == rows


def test_too_many_rows_are_refused_with_the_number_there_is():
    with pytest.raises(DataError, match="200 train rows of the family 'one_word' are asked for and 144 exist"):
        Instructions(families=("one_word",), train_rows=200).rows("train", 0)


def test_unknown_family_is_refused_with_a_suggestion():
    with pytest.raises(ValidationError, match="did you mean 'one_word'"):
        Instructions(families=("one_wrd",))
    with pytest.raises(ValidationError, match="named twice"):
        Instructions(families=("one_word", "one_word"))


ASKED = {"family": "contains_word", "parameters": {"words": ["blue"]}}


def test_a_wrong_answer_scores_zero_and_says_why():
    score = verify(Answer("The sea is green.", ASKED))
    assert (score.value, score.correct, score.parts) == (0.0, False, {"contains_word": 0.0})
    assert score.reason == "blue not used"


def test_an_answer_cut_at_the_limit_is_wrong_and_an_aborted_one_is_not_scored():
    right = "The sea is blue."
    assert verify(Answer(right, ASKED)).value == 1.0
    assert verify(Answer(right, ASKED, "length")).value == 0.0
    assert verify(Answer(right, ASKED, "length")).reason == "cut at the token limit"
    assert verify(Answer(right, ASKED, "aborted")).value is None


def test_a_family_that_does_not_exist_is_an_error():
    with pytest.raises(DataError, match="contains_word"):
        verify(Answer("x", {"family": "contain_word", "parameters": {}}))


def test_the_reward_is_importable_without_heavy_libraries():
    module, _, function = Instructions().reward()["target"].partition(":")
    heavy = ("torch", "transformers", "datasets", "pyarrow", "jinja2")
    code = (
        f"import sys, {module}; assert callable({module}.{function}); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
