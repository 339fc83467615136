"""The reward `constraints`, and the counts it stands on."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groupwise.errors import DataError
from groupwise.rewards.contract import Record
from groupwise.rewards.text import constraints
from groupwise.rewards.text.constraints import Constraint, Constraints, Count
from groupwise.rewards.text.counts import COUNTS

MARKDOWN = """# Title

* one *two*
- three
  + four
• five
1. six
2) seven
-eight
####### nine
[name], [a
b], **bold** and NASA, I, USA!
"""


@pytest.mark.parametrize(
    ("count", "text", "expected"),
    [
        ("characters", " añ中 \n", 3),
        ("words", "It's a well-known -- fact, 3 times.", 6),
        ("words", "", 0),
        ("words", "中文 也算", 2),
        ("sentences", "One. Two! Three? Four", 4),
        ("sentences", "It costs 3.50 in the U.S today.", 1),
        ("sentences", "Dr. Who", 2),
        ("sentences", "1. First item.\n2. Second item.", 2),
        ("sentences", 'He said "Stop!" (twice.) Then... nothing?!', 4),
        ("sentences", "**Bold.** __Done.__", 2),
        ("sentences", "你好。再见！好吗？", 3),
        ("sentences", "42. !!! ...", 0),
        ("lines", "a\n\n  \nb\r\nc", 3),
        ("paragraphs", "a\nb\n\n\nc\n \nd\n", 3),
        ("paragraphs", "\n\n", 0),
        ("bullets", MARKDOWN, 4),
        ("bullets", "-\n- \n--- x", 0),
        ("numbered", MARKDOWN, 2),
        ("numbered", "3.5 is\n10. it\na. no", 1),
        ("headings", MARKDOWN, 1),
        ("headings", "###### six\n#none\n#", 1),
        ("highlights", MARKDOWN, 2),
        ("highlights", "* a\n* b *", 0),
        ("placeholders", MARKDOWN, 1),
        ("placeholders", "[] [x] [[y]]", 2),
        ("capital_words", MARKDOWN, 2),
    ],
)
def test_counts(count, text, expected):
    assert COUNTS[count](text) == expected


def test_every_count_can_be_asked_for():
    assert set(COUNTS) == set(get_args(Count))


KEPT_AND_BROKEN = [
    ({"kind": "words", "min": 2, "max": 3}, "one two", "one"),
    ({"kind": "words", "min": 2, "max": 3}, "one two three", "a b c d"),
    ({"kind": "bullets", "min": 0, "max": 0}, "none", "- one"),
    ({"kind": "include", "texts": ["sun", "moon"]}, "sun and moon", "sun"),
    ({"kind": "include", "texts": ["sun"], "min": 2}, "sun, sun", "sun"),
    ({"kind": "include", "texts": ["sun"], "max": 1}, "sun", "sun sun"),
    ({"kind": "include", "texts": ["sun"], "max": 1}, "sun", "rain"),
    ({"kind": "include", "texts": ["Sun"], "ignore_case": True}, "SUN", "moon"),
    ({"kind": "include", "texts": ["Sun"]}, "Sun", "sun"),
    ({"kind": "include", "texts": ["sun"], "whole_words": True}, "the sun.", "sunny"),
    ({"kind": "exclude", "texts": [","]}, "no comma", "a, b"),
    ({"kind": "exclude", "texts": ["cat", "dog"], "whole_words": True}, "concatenate dogs", "a dog"),
    ({"kind": "exclude", "texts": ["CAT"], "ignore_case": True}, "dog", "a cat"),
    ({"kind": "starts", "texts": ["Dear", "Hello"]}, "  Hello you", "So, Hello"),
    ({"kind": "ends", "texts": ["THE END"], "ignore_case": True}, "it is. The end\n", "The end."),
    ({"kind": "ends", "texts": ['"']}, '"Quoted"', '"Quoted'),
    ({"kind": "is", "texts": ["My answer is yes.", "My answer is no."]}, "My answer is no.\n", "My answer is no. So"),
    ({"kind": "upper"}, "ALL OF 3!", "ALL oF"),
    ({"kind": "upper"}, "A", "123"),
    ({"kind": "lower"}, "all of it", "All of it"),
    ({"kind": "json"}, '{"a": [1, 2.5, null]}', "{'a': 1}"),
    ({"kind": "json"}, '```json\n{"a": 1}\n```', '```json\n{"a": 1}'),
    ({"kind": "json"}, "[]", "5"),
    ({"kind": "json"}, '["ok"]', '{"a": NaN}'),
    ({"kind": "json"}, "[1]", '{"a": 1} is it'),
    ({"kind": "json"}, "[[1]]", "[" * 100_000),
    ({"kind": "json"}, "[0]", "[" + "9" * 5000 + "]"),
    ({"kind": "script", "texts": ["ja"]}, "かかかかかかかかか x", "かかかかかかかか x"),
    ({"kind": "script", "texts": ["cyrillic", "latin"]}, "да, yes", "中文"),
    ({"kind": "script", "texts": ["latin"]}, "yes", "42"),
]


@pytest.mark.parametrize(("constraint", "kept", "broken"), KEPT_AND_BROKEN)
def test_each_kind_is_kept_and_broken(constraint, kept, broken):
    assert constraints.grade(kept, [constraint]).correct is True
    score = constraints.grade(broken, [constraint])
    assert (score.value, score.correct) == (0.0, False) and score.reason.startswith(
        f"0 of 1 kept; {constraint['kind']}:"
    )


def test_every_kind_is_tried_above():
    plain = {one["kind"] for one, _, _ in KEPT_AND_BROKEN}
    kinds = {kind for part in get_args(Constraint.model_fields["kind"].annotation) for kind in get_args(part) or [part]}
    assert kinds - plain == set(COUNTS) - {"words", "bullets"}


def test_the_value_is_the_share_or_all_and_parts_are_by_kind():
    asked = [
        {"kind": "words", "max": 3},
        {"kind": "include", "texts": ["a"]},
        {"kind": "include", "texts": ["z"]},
        {"kind": "exclude", "texts": [","]},
    ]
    score = constraints.grade("a b c d", asked)
    assert score.value == 0.5 and score.correct is False
    assert score.parts == {"words": 0.0, "include": 0.5, "exclude": 1.0}
    assert (
        score.reason == "2 of 4 kept; words: 4 words, at most 3 asked for; include: 0 times 'z', at least 1 asked for"
    )
    assert constraints.grade("a b c d", asked, value="all").value == 0.0
    assert constraints.grade("a z", asked, value="all").value == 1.0


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "wrods", "min": 1}, "kind"),
        ({"kind": "words"}, "needs min or max"),
        ({"kind": "words", "min": 3, "max": 2}, "min = 3 is above max = 2"),
        ({"kind": "words", "min": -1}, "greater than or equal to 0"),
        ({"kind": "words", "min": True}, "is no number"),
        ({"kind": "words", "min": 1, "texts": ["a"]}, "texts means nothing"),
        ({"kind": "include"}, "needs texts"),
        ({"kind": "exclude", "texts": [" "]}, "none of them blank"),
        ({"kind": "exclude", "texts": ["a"], "max": 1}, "max means nothing"),
        ({"kind": "starts", "texts": ["a"], "whole_words": True}, "whole_words means nothing"),
        ({"kind": "upper", "ignore_case": True}, "ignore_case means nothing"),
        ({"kind": "script", "texts": ["klingon"]}, "'klingon' is no script or language"),
        ({"kind": "json", "minimum": 1}, "Extra inputs"),
        ("words", "Input should be"),
    ],
)
def test_constraints_that_cannot_be_meant_are_refused(table, said):
    with pytest.raises(ValidationError, match=said):
        constraints.read([table])
    score = constraints.grade("text", [table])
    assert (score.value, score.correct) == (None, None) and score.reason.startswith("the constraints can't be read")
    if isinstance(table, dict):
        with pytest.raises(ValidationError, match=said):
            Constraints(every=(table,))


def record(text: str, **columns: Any) -> Record:
    return Record("p", "p", "Say it.", None, columns, text, text, (1,), "stop")


def test_cells_are_lists_or_json_text_and_what_a_columnar_file_filled_in_is_left_out():
    table = {"kind": "words", "min": 2, "max": None, "texts": None, "ignore_case": None}
    for cell in ([table], (table,), json.dumps([{"kind": "words", "min": 2}])):
        assert constraints.read(cell) == (Constraint(kind="words", min=2),)
    assert constraints.read(None) == () == constraints.read([])
    for cell in ("no json", "5", 5, {"kind": "words", "min": 2}, '{"kind": "words"}'):
        with pytest.raises(ValueError):
            constraints.read(cell)


def test_R085_without_constraints_there_is_no_reward():
    reward = Constraints()
    scores = reward.score([record("a", constraints=[]), record("a", constraints=None), record("a", constraints="[]")])
    assert [(score.value, score.correct, score.reason) for score in scores] == [(None, None, "")] * 3


def test_rows_and_the_run_file_both_may_ask():
    reward = Constraints(every=({"kind": "exclude", "texts": [","]},))  # type: ignore[arg-type]
    asked = [{"kind": "words", "min": 2}]
    scores = reward.score(
        [record("a b", constraints=asked), record("a, b", constraints=asked), record("a", constraints=None)]
    )
    assert [score.value for score in scores] == [1.0, 0.5, 1.0]
    alone = Constraints(column="", every=({"kind": "words", "max": 1},))  # type: ignore[arg-type]
    alone.check([{}])
    assert alone.score([record("a b")])[0].value == 0.0


def test_only_what_stands_after_a_marker_counts():
    reward = Constraints(after="</think>", column="", every=({"kind": "words", "max": 2},))  # type: ignore[arg-type]
    texts = ["so many words here </think> one two", "one two", "a b c</think>d</think>e"]
    assert [score.parts["words"] for score in reward.score([record(text) for text in texts])] == [1.0, 1.0, 1.0]
    needed = Constraints(after="</think>", column="", every=({"kind": "words", "min": 1},))  # type: ignore[arg-type]
    assert [score.value for score in needed.score([record(text) for text in texts])] == [1.0, 0.0, 1.0]


def test_a_marker_may_be_a_special_token():
    one = Record("p", "p", "", None, {}, "a b c</think>d<eos>", "a b cd<eos>", (1,), "stop")
    reward = Constraints(after="</think>", column="", every=({"kind": "starts", "texts": ["d"]},))  # type: ignore[arg-type]
    assert reward.score([one])[0].value == 1.0


def test_bad_rows_are_reported_before_training():
    reward = Constraints()
    reward.check([{"constraints": [{"kind": "words", "min": 1}]}, {"constraints": None}])
    with pytest.raises(DataError, match="needs the column 'constraints'; 1 of 2 rows lack it"):
        reward.check([{"constraints": []}, {}])
    with pytest.raises(
        DataError, match=r"the constraints of row r7 can't be read: .*0: Value error, kind = 'words' needs"
    ):
        reward.check([{"constraints": []}, {"id": "r7", "constraints": [{"kind": "words"}]}])


@given(st.text(alphabet='ab .!?\n*-[]#1。中"', max_size=60))
def test_counts_of_a_text_told_twice_are_counted_twice(text):
    twice = f"{text.strip()}\n\n{text.strip()}"
    for name in ("words", "lines", "paragraphs", "bullets", "numbered", "headings", "capital_words"):
        assert COUNTS[name](twice) == 2 * COUNTS[name](text), name
