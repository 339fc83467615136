"""Every family passes its own reference answers, fails spoilt ones, and can't be met by cheap answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.tasks.families import FAMILIES, TEST_TOPICS, TRAIN_TOPICS
from groupwise.tasks.families.text import not_prose, sentences, words

ALL_TOPICS = TRAIN_TOPICS + TEST_TOPICS
CASES = [
    pytest.param(family, variant, id=f"{name}-{index}")
    for name, family in FAMILIES.items()
    for index, variant in enumerate(family.variants)
]


@pytest.mark.parametrize("family, parameters", CASES)
def test_reference_answers_pass_for_every_topic(family, parameters):
    for topic in ALL_TOPICS:
        verdict = family.verify(family.reference(topic, parameters), parameters)
        assert verdict.correct, (topic.phrase, verdict.reason)


@pytest.mark.parametrize("family, parameters", CASES)
def test_spoilt_and_degenerate_answers_fail_for_every_topic(family, parameters):
    for topic in ALL_TOPICS:
        for answer in family.wrong_answers(topic, parameters):
            verdict = family.verify(answer, parameters)
            assert not verdict.correct and verdict.reason, (topic.phrase, answer)


@pytest.mark.parametrize("name", ["one_word", "lower_case", "upper_case", "list_items", "brackets", "json_keys"])
def test_saying_the_instruction_back_is_wrong(name):
    family = FAMILIES[name]
    for wording in range(len(family.wordings)):
        echo = family.instruction(ALL_TOPICS[0], wording, family.variants[0])
        assert not family.verify(echo, family.variants[0]).correct


@pytest.mark.parametrize("family, parameters", CASES)
@given(text=st.text(max_size=200))
def test_any_text_gets_a_verdict(family, parameters, text):
    verdict = family.verify(text, parameters)
    assert isinstance(verdict.correct, bool) and verdict.reason


@pytest.mark.parametrize("family, parameters", CASES)
@given(word=st.sampled_from(["blue", "today", "The", "a", "x1", "OK"]), times=st.integers(2, 60))
def test_one_word_over_and_over_is_never_right(family, parameters, word, times):
    for separator in (" ", ". ", "\n", ", "):
        assert not family.verify(separator.join([word] * times), parameters).correct


@pytest.mark.parametrize("family, parameters", CASES)
def test_instructions_name_topic_and_parameters(family, parameters):
    for wording in range(len(family.wordings)):
        text = family.instruction(ALL_TOPICS[0], wording, parameters)
        assert ALL_TOPICS[0].phrase in text and "{" not in text
        for value in parameters.values():
            for item in value if isinstance(value, list) else [value]:
                assert str(item) in text


@pytest.mark.parametrize(
    "family, text, correct",
    [
        ("at_most_words", "one two three four five six seven eight nine ten eleven twelve", True),
        ("at_most_words", "one two three four five six seven eight nine ten eleven twelve more", False),
        ("one_word", '"Deep."', True),
        ("one_word", "**Deep**", True),
        ("one_word", "Deep blue", False),
        ("one_word", "Deep\nIt is deep.", False),
        ("last_word", "The sea is calm Today!", True),
        ("last_word", "Today the sea is calm.", False),
        ("contains_word", "The sea is Blue.", True),
        ("contains_word", "The sea has blueberries.", False),
        ("no_commas", "The sea is deep. It is salty too.", True),
        ("no_commas", "The sea is deep", False),
        ("no_commas", "The sea, it is deep. It is salty too.", False),
        ("lower_case", "the sea is deep.", True),
        ("lower_case", "the sea is Deep.", False),
        ("lower_case", "123 456 789", False),
        ("upper_case", "THE SEA IS 20 METRES DEEP!", True),
        ("upper_case", "THE SEA IS DEEp", False),
        ("forbidden_words", "The sea has sand.", True),
        ("forbidden_words", "The sea AND sand.", False),
        ("list_items", "deep, salty, wide.", True),
        ("list_items", "deep, salty, very wide", False),
        ("list_items", "Deep, deep, wide", False),
        ("brackets", "[The sea is deep.]", True),
        ("brackets", "[The sea] is deep.", False),
        ("json_keys", '{"color": "blue", "name": "sea"}', True),
        ("json_keys", '{"color": "blue", "name": "sea", "x": "y"}', False),
        ("json_keys", '```json\n{"color": "blue", "name": "sea"}\n```', False),
        ("json_keys", '{"color": NaN, "name": "sea"}', False),
        ("numbered_list", "1. It is deep.\n\n2) It is wide.\n3. It is salt.", True),
        ("numbered_list", "1. It is deep.\n3. It is wide.\n2. It is salt.", False),
        ("exact_words", "The sea is deep and wide most days.", True),
        ("exact_sentences", "The sea is deep. It is wide.", True),
        ("exact_sentences", "The sea is deep. It is", False),
    ],
)
def test_verdicts(family, text, correct):
    verdict = FAMILIES[family].verify(text, FAMILIES[family].variants[0])
    assert verdict.correct is correct, verdict.reason


def test_prose_and_its_terms():
    assert words("It's a well-known café, no. 7!") == ["It's", "a", "well", "known", "café", "no", "7"]
    assert sentences('One is here. "Two is there!" And thr') == (
        ["One is here.", '"Two is there!'],
        '" And thr',
    )
    assert sentences("All is done...") == (["All is done..."], "")
    assert not_prose("the sea is deep") == ""
    assert not_prose("deep sea") and not_prose("1 2 3 4") and not_prose("sea is deep " * 4)


def test_topics_are_apart_and_fit_the_reference_answers():
    train, test = {topic.phrase for topic in TRAIN_TOPICS}, {topic.phrase for topic in TEST_TOPICS}
    assert len(train) == len(TRAIN_TOPICS) >= 24 and len(test) == len(TEST_TOPICS) >= 8 and not train & test
    assert all(2 <= len(topic.phrase.split()) <= 3 for topic in ALL_TOPICS)
