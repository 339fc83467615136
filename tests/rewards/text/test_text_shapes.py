"""Rewards that shape by length, repetition or script: `length`, `overlong`, `repetition`, `language`."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groupwise.core.lengths import soft_overlong_punishment
from groupwise.errors import DataError
from groupwise.rewards.contract import Record
from groupwise.rewards.text import language, length, overlong, repetition
from groupwise.rewards.text.language import Language
from groupwise.rewards.text.length import Length
from groupwise.rewards.text.overlong import Overlong
from groupwise.rewards.text.repetition import Repetition
from groupwise.rewards.text.scripts import LANGUAGES, SCRIPTS, script_of


def record(text: str = "", tokens: Sequence[int] = (1, 2), group: str = "p", **columns: Any) -> Record:
    return Record(group, group, "Say it.", None, columns, text, text, tuple(tokens), "stop")


@pytest.mark.parametrize(
    ("shape", "settings", "expected"),
    [
        ("linear", {"start": 100, "end": 300}, {0: 1, 100: 1, 150: 0.75, 200: 0.5, 300: 0, 900: 0}),
        ("linear", {"start": 300, "end": 100}, {0: 0, 100: 0, 150: 0.25, 200: 0.5, 300: 1, 900: 1}),
        ("cosine", {"start": 0, "end": 400}, {0: 1, 100: 0.5 + math.sqrt(0.125), 200: 0.5, 400: 0, 999: 0}),
        ("cosine", {"start": 400, "end": 0}, {0: 0, 200: 0.5, 400: 1, 999: 1}),
        ("target", {"target": 50, "width": 20}, {0: 0, 30: 0, 40: 0.5, 50: 1, 65: 0.25, 99: 0}),
        ("linear", {"start": 0, "end": 10, "floor": 0.5}, {0: 1, 5: 0.75, 10: 0.5}),
    ],
)
def test_shapes_of_length(shape, settings, expected):
    reward = Length(shape=shape, **settings)
    scores = reward.score([record(tokens=[7] * count) for count in expected])
    assert [score.value for score in scores] == pytest.approx(list(expected.values()), abs=1e-12)
    assert all(
        score.correct is None and score.reason == f"length {n}" for n, score in zip(expected, scores, strict=True)
    )


def test_a_length_beside_the_others_of_its_group():
    sizes, groups = [10, 4, 30, 20, 4], "pqppq"
    records = [record(tokens=[1] * size, group=group) for size, group in zip(sizes, groups, strict=True)]
    assert [score.value for score in Length(shape="group").score(records)] == [0.5, 0.0, -0.5, 0.0, 0.0]
    assert Length(shape="group").score([]) == []


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=9))
def test_shorter_is_never_less_in_any_shape_that_says_so(lengths):
    lengths.sort()
    values = [
        [length.grade(one, "linear", start=10, end=10**5).value for one in lengths],
        [length.grade(one, "cosine", start=10, end=10**5).value for one in lengths],
        [score.value for score in length.grade_group(lengths)],
    ]
    for shape in values:
        assert all(a >= b for a, b in pairwise(shape))  # type: ignore[operator]


def test_units_of_length():
    one = record("<think>a b</think> ab cde. ", tokens=[1] * 50)
    settings = {"shape": "linear", "start": 100, "end": 0}
    assert Length(**settings).score([one])[0].value == 0.5
    assert Length(unit="words", after="</think>", **settings).score([one])[0].value == pytest.approx(0.02)
    assert Length(unit="characters", after="</think>", **settings).score([one])[0].value == pytest.approx(0.07)
    assert Length(unit="characters", **settings).score([one])[0].value == pytest.approx(0.26)


def test_a_target_in_the_row():
    reward = Length(shape="target", target_column="budget", width=10)
    reward.check([{"budget": 5}, {"budget": 7.5}])
    scores = reward.score([record(tokens=[1] * 5, budget=10), record(budget="ten"), record()])
    assert [score.value for score in scores] == [0.5, None, None] and "'ten' is no length" in scores[1].reason
    with pytest.raises(DataError, match="needs the column 'budget'"):
        reward.check([{}])
    with pytest.raises(DataError, match="2 of 3 golds in column 'budget' are not lengths"):
        reward.check([{"budget": 5}, {"budget": -1}, {"budget": None}])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shape": "linear"}, 'shape = "linear" takes end, start; given: none'),
        ({"shape": "linear", "start": 1, "end": 2, "width": 3}, "given: end, start, width"),
        ({"shape": "linear", "start": 5, "end": 5}, "start and end are both 5"),
        ({"shape": "target", "target": 5}, "takes target, width"),
        ({"shape": "target", "target": 5, "target_column": "t", "width": 1}, "takes target_column, width"),
        ({"shape": "target", "target": 5, "width": 0}, "greater than or equal to 1"),
        ({"shape": "group", "start": 5}, "takes none of"),
        ({"shape": "group", "floor": 0.5}, "has no floor"),
        ({"shape": "group", "after": "x"}, "counts the whole completion"),
        ({"shape": "bell"}, "'linear', 'cosine', 'target' or 'group'"),
    ],
)
def test_lengths_that_cannot_be_meant_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        Length(**settings)


@given(st.integers(1, 5000), st.integers(1, 5000), st.lists(st.integers(0, 12_000), min_size=1, max_size=9))
def test_overlong_is_the_punishment_that_algorithms_add(max_length, cache, lengths):
    cache = min(cache, max_length)
    expected = soft_overlong_punishment(torch.tensor(lengths), max_length, cache).tolist()
    reward = Overlong(max_length=max_length, cache=cache)
    assert [score.value for score in reward.score([record(tokens=[1] * n) for n in lengths])] == expected
    assert [overlong.grade(n, max_length, cache).value for n in lengths] == expected


def test_overlong_in_numbers_and_its_limits():
    for tokens, value in {0: 0, 16_384: 0, 18_432: -0.5, 20_480: -1, 30_000: -1}.items():
        assert overlong.grade(tokens, max_length=20_480, cache=4_096).value == value
    with pytest.raises(ValidationError, match="cache = 5 is above max_length = 4"):
        Overlong(max_length=4, cache=5)


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 12))
def test_repetition_counts_the_n_grams_that_stood_there_before(items, n):
    grams = [tuple(items[start : start + n]) for start in range(len(items) - n + 1)]
    expected = len(set(grams)) / len(grams) - 1 if grams else 0.0
    assert repetition.grade(items, n).value == expected
    assert Repetition(n=n).score([record(tokens=items)])[0].value == expected


def test_repetition_in_words():
    score = repetition.grade(["so", "we", "go", "on", "and", "so", "we", "go", "on"], n=3)
    assert score.value == pytest.approx(-2 / 7) and score.reason == "2 of 7 3-grams repeated"
    reward = Repetition(unit="words", n=1, after="</think>")
    assert reward.score([record("a a a</think> So  so\nso we")])[0].value == -0.5
    assert reward.score([record("a a a")])[0].value == 0.0
    with pytest.raises(ValidationError, match="counts the whole completion"):
        Repetition(after="</think>")
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Repetition(n=0)


def test_a_loop_is_punished_almost_wholly_and_a_list_of_new_words_not_at_all():
    assert repetition.grade([1, 2, 3] * 1000, 3).value < -0.99
    assert repetition.grade(range(3000), 3).value == 0.0


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("15は3と5の積です。", "ja", 1.0),
        ("因此答案是 fifteen", "zh", 5 / 12),
        ("因此答案是 fifteen", "en", 7 / 12),
        ("C'est la vie, naïve Überraschung", "en", 1.0),
        ("ответ 42", "ru", 1.0),
        ("ответ x", "cyrillic", 5 / 6),
        ("정답은 3", "ko", 1.0),
        ("उत्तर", "hi", 1.0),
        ("คำตอบ", "th", 1.0),
        ("الجواب", "ar", 1.0),
        ("H₂O \U0001f600 \U0001d465", "latin", 2 / 3),
        ("42 = 6 * 7", "zh", None),
        ("", "en", None),
    ],
)
def test_the_share_of_letters_in_a_script(text, asked, expected):
    score = language.grade(text, asked)
    assert score.value == (None if expected is None else pytest.approx(expected)) and score.correct is None
    assert bool(score.reason) is (expected is not None)


def test_ranges_agree_with_the_names_that_unicode_gives_to_letters():
    """The first word of a letter's name is its script, for the scripts whose letters are all named so."""
    named = {
        name.upper(): name for name in SCRIPTS if name not in ("han", "kana")
    } | {"HIRAGANA": "kana", "KATAKANA": "kana", "CJK": "han"}  # fmt: skip
    seen = set()
    for code in range(0x33000):
        letter = chr(code)
        script = script_of(letter)
        first = unicodedata.name(letter, "").split(" ")[0]
        if script is not None and first in named:
            assert named[first] == script, f"U+{code:04X}"
            seen.add(script)
    assert seen == set(SCRIPTS)
    assert [script_of(letter) for letter in "aéß ж λ ٣ 3,.한漢かカー々ａ".replace(" ", "")] == [
        "latin", "latin", "latin", "cyrillic", "greek", None, None, None, None, "hangul", "han", "kana", "kana",
        "kana", "han", "latin",
    ]  # fmt: skip


def test_every_language_has_scripts_that_there_are_and_ranges_do_not_overlap():
    assert all(set(scripts) <= set(SCRIPTS) for scripts in LANGUAGES.values())
    ranges = sorted(one for ranges in SCRIPTS.values() for one in ranges)
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_the_language_of_the_run_or_of_the_row():
    assert Language(language="zh").score([record("中 a")])[0].value == 0.5
    reward = Language(column="lang", after="</think>")
    reward.check([{"lang": "zh"}, {"lang": "en"}])
    scores = reward.score(
        [record("x</think>中", lang="zh"), record("x</think>", lang="zh"), record("</think>x", lang="xx")]
    )
    assert [score.value for score in scores] == [1.0, None, None]
    assert scores[1].reason == "" and scores[2].reason == "'xx' is no script or language known here"
    with pytest.raises(DataError, match="row 1: 'xx' is no script or language known here"):
        reward.check([{"lang": "zh"}, {"lang": "xx"}])
    with pytest.raises(DataError, match="row 0"):
        reward.check([{"lang": None}])
    with pytest.raises(DataError, match="needs the column 'lang'"):
        reward.check([{}])
    for settings in ({}, {"language": "zh", "column": "lang"}):
        with pytest.raises(ValidationError, match="give either"):
            Language(**settings)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("eng", "did you mean 'en'?"),
        ("zh-CN", "did you mean 'zh'?"),
        ("pt_BR", "did you mean 'pt'?"),
        ("Cyrilic", "did you mean 'cyrillic'?"),
        (
            "klingon",
            "give one of the ISO 639-1 codes, such as en, ru or zh, or a script such as latin, cyrillic or han",
        ),
    ],
)
def test_a_language_that_is_not_known_is_refused_with_one_that_is(name, fix):
    with pytest.raises(ValidationError) as error:
        Language(language=name)
    (fault,) = error.value.errors()
    assert fault["msg"] == f"Value error, {name!r} is no script or language known here; {fix}"
