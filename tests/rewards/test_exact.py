"""The reward `exact`."""

from __future__ import annotations

import pytest

from groupwise.errors import DataError
from groupwise.rewards import Exact, exact


def test_only_the_gold_itself_is_right():
    assert exact.grade(" Paris\n", "Paris").correct is True
    assert exact.grade("paris", "Paris").correct is False
    assert exact.grade("Paris, France", "Paris").value == 0.0
    assert exact.grade("", "Paris").correct is False


def test_white_space_and_case_are_settings():
    assert exact.grade(" Paris", "Paris", strip=False).correct is False
    assert exact.grade("STRASSE", "straße", ignore_case=True).correct is True


def test_a_number_is_compared_as_it_is_printed():
    assert exact.grade("7", 7).correct is True
    assert exact.grade("7.0", 7).correct is False


@pytest.mark.parametrize("gold", [None, "", "  ", ["a"], {"a": 1}, float("nan")])
def test_R011_gold_that_cannot_be_compared_gives_no_reward(gold):
    for text in ("", "nan", "None"):
        assert exact.grade(text, gold).value is None


def test_R011_bad_golds_are_reported_before_training():
    with pytest.raises(DataError, match=r"1 of 2 golds in column 'gold'.*None \(b\)"):
        Exact(column="gold").check([{"gold": "x", "id": "a"}, {"gold": None, "id": "b"}])


def test_it_reads_the_column_it_is_told(record):
    scores = Exact(column="capital").score([record("Paris", capital="Paris"), record("Rome", capital="Paris")])
    assert [score.correct for score in scores] == [True, False]


def test_R078_a_missing_column_is_reported_before_training():
    with pytest.raises(DataError, match="needs the column 'answer'; 2 of 2 rows lack it"):
        Exact().check([{"prompt": "a"}, {"prompt": "b"}])
