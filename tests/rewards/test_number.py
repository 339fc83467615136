"""The reward `number`: its grammar, its golds, and what it refuses."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.errors import DataError
from groupwise.rewards import Number, number
from groupwise.rewards.number_grammar import find_answer, read_gold


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("6 * 7 = 42", 42),
        ("It costs $1,234,567.50 in all.", "1234567.5"),
        ("10-5", 5),
        ("it is -5", -5),
        ("it is −5", -5),
        ("-$5", -5),
        ("- 5 apples", 5),
        ("x=.5", "1/2"),
        ("about 1.5e3 of them", 1500),
        ("3/4", 0.75),
        ("3 / 4", "0.75"),
        ("2 3/4 cups", 2.75),
        (r"$\frac{3}{4}$", "3/4"),
        (r"$-2\frac{3}{4}$", -2.75),
        ("50%", 50),
        ("50 \\%", "50%"),
        ("3,5", 5),
        ("1,2345", 2345),
        ("H2O weighs 18", 18),
        ("a value of 7 in H2O", 7),
        ("I ate 12. Then none.", 12),
        ("#### 58", 58),
        ("#### **58** dollars", 58),
        ("#### $58.00", 58),
        ("#### 40\nno, wait\n#### 58", 58),
        ("#### 5 + 53 = 58", 58),
        ("#### 1. Compute\n3 + 4 = 7\n#### 2. Answer\nThe answer is 7.", 7),
        ("#### 58\n#### Notes\nThere were 3 of them.", 58),
        (r"\boxed{58} and 3 more words", 58),
        (r"\boxed{12} no, \boxed{58}", 58),
        (r"\boxed{x = 58}", 58),
        (r"\boxed{\$1{,}234}", 1234),
        (r"\boxed{58\text{ cm}}", 58),
        (r"\boxed{\frac{1}{2}}", 0.5),
        (r"\boxed{90^\circ}", 90),
        ("The answer is 58, since 2 * 29 is that.", 58),
        ("The final answer is:\n\n**58**\n\nI checked 3 times", 58),
        ("**Answer:** $58$, as 3 others found", 58),
        ("The answer is x = 58", 58),
        ("The answer is 5 + 53 = 58 by 2 sums", 58),
        ("The answer is not obvious at first, but it must be 58.", 58),
        ("The answer is 58 - in the 3rd attempt", 58),
    ],
)
def test_what_is_read_as_the_answer(text, gold):
    score = number.grade(text, gold)
    assert (score.value, score.correct) == (1.0, True), score.reason


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("", 0),
        ("none at all", 0),
        ("41", 42),
        ("0.33", "1/3"),
        ("50%", 0.5),
        ("42.0000001", 42),
        ("1/0", 1),
        ("3x", 3),
        ("10^3", 3),
        (r"\boxed{}", 3),
        (r"it is 3, \boxed{unknown}", 3),
        (r"\boxed{2\pi}", 2),
        (r"\boxed{\sqrt{2}}", 2),
        (r"\boxed{3 or 4}", 3),
        (r"\boxed{3} or rather \boxed 4", 3),
        ("#### 58\n####", 58),
        ("so 58.\nAnswer: unknown", 58),
        ("The answer is 5 + 53", 58),
        ("9" * 500, 9),
    ],
)
def test_what_is_wrong(text, gold):
    score = number.grade(text, gold)
    assert (score.value, score.correct) == (0.0, False), score.reason


def test_the_verdict_says_what_was_taken():
    assert number.grade("#### 41", 42).reason == "'41', after ####; the gold is 42"


def test_R061_a_broken_last_answer_does_not_fall_back_to_an_earlier_one():
    assert number.grade(r"\boxed{12} ... no, \boxed{", 12).correct is False
    assert number.grade(r"\boxed{12} ... no, \boxed{1{2", 12).correct is False


@pytest.mark.parametrize("reason", ["length", "aborted"])
def test_R061_a_completion_that_was_cut_off_needs_a_marked_and_complete_answer(reason):
    assert number.grade("so far we have 36 and then we", 36, reason).correct is False
    assert number.grade("#### 36", 36, reason).correct is False  # it might have become 360
    assert number.grade("the answer is 36,", 36, reason).correct is False
    assert number.grade("#### 36\nbecause", 36, reason).correct is True
    assert number.grade(r"\boxed{36} bec", 36, reason).correct is True
    assert number.grade("the answer is 36 bec", 36, reason).correct is True


def test_R066_the_whole_completion_is_searched():
    assert number.grade("#### 58" + " some more chatter" * 34, 58).correct is True
    assert number.grade("#### 58\n" + "3 more words. " * 70_000, 58).correct is True
    assert number.grade(r"\boxed{58}" + " and 3 more" * 90_000, 58).correct is True
    assert number.grade("The answer is 58." + " and 3 more" * 90_000, 58).correct is True
    assert number.grade("58" + " words" * 170_000, 58).correct is True


HOSTILE = [
    "1 ",
    "9",
    "1,111",
    "1/",
    "#### a\n",
    "#### 1. a\n",
    "answer is ",
    "\\boxed{",
    "\\frac{1}{",
    "$",
    " ",
    "-",
    ".1",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_R066_a_megabyte_of_anything_is_read_in_linear_time(piece):
    assert number.grade(piece * (1_000_000 // len(piece)), 58).correct is False  # a quadratic reader never ends
    assert number.grade(rf"\boxed{{58{'a' * 1_000_000}!}}", 58).correct is False


@given(st.text(alphabet="0123456789.,/-+eE#$%\\{}boxedfrac answeris:=\n\t", max_size=80))
def test_any_text_has_a_verdict(text):
    for cut_off in (False, True):
        found = find_answer(text, cut_off=cut_off)
        assert found.rule
    assert number.grade(text, 58).value in (0.0, 1.0)


@given(st.integers(-(10**12), 10**12), st.integers(0, 4))
def test_a_printed_number_is_read_back_exactly(units, places):
    expected = Fraction(units, 10**places)
    printed = f"{Decimal(units).scaleb(-places):,f}"
    for text in (
        printed,
        f"#### {printed}",
        rf"\boxed{{{printed}}}",
        f"The answer is ${printed}.",
        f"so {printed}%",
    ):
        assert find_answer(text).value == expected
    assert read_gold(printed) == expected


@pytest.mark.parametrize(
    ("gold", "value"),
    [
        (18, 18),
        (0.1, Fraction(1, 10)),
        (numpy.int64(3), 3),
        (numpy.float32(0.5), Fraction(1, 2)),
        (Decimal("1.50"), Fraction(3, 2)),
        (" 18 ", 18),
        ("$1,000", 1000),
        ("18 dollars", 18),
        ("half of 36 is <<36/2=18>>18.\n#### 18", 18),
        (r"thus \boxed{18}", 18),
    ],
)
def test_golds_that_can_be_read(gold, value):
    assert read_gold(gold) == value


UNREADABLE = [
    "see figure",
    "",
    "3 or 4",
    "x = y",
    "2 and 3",
    None,
    True,
    float("nan"),
    float("inf"),
    [18],
    "####",
]


@pytest.mark.parametrize("gold", UNREADABLE)
def test_R011_gold_that_cannot_be_read_gives_no_reward(gold):
    for text in ("4", "5", "6", "7", ""):
        score = number.grade(text, gold)
        assert (score.value, score.correct) == (None, None) and "can't be read" in score.reason


def test_R011_a_bad_gold_leaves_other_prompts_alone(record):
    records = [
        record("4", "bad", answer="see figure"),
        record("4", "good", answer="4"),
        record("5", "good", answer="4"),
    ]
    assert [score.value for score in Number().score(records)] == [None, 1.0, 0.0]


def test_R011_bad_golds_are_reported_before_training():
    rows = [{"answer": 4}] * 5 + [{"answer": "see figure", "id": "geometry-7"}, {"answer": None}]
    with pytest.raises(
        DataError, match=r"2 of 7 golds in column 'answer'.*'see figure' \(geometry-7\), None \(row 6\)"
    ):
        Number().check(rows)
    Number().check(rows[:5])


def test_R078_a_missing_column_is_reported_before_training():
    with pytest.raises(DataError, match=r"needs the column 'gold'; 1 of 2 rows lack it.*\(answer, id\)"):
        Number(column="gold").check([{"gold": 1}, {"answer": 1, "id": "a"}])


def test_an_answer_is_found_in_the_text_without_special_tokens(record):
    from dataclasses import replace

    tagged = replace(record("<|tag_1|>", answer=7), clean_text="7")
    assert Number().score([tagged])[0].correct is True
