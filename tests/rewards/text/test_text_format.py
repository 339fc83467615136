"""The reward `format`: its grammar, the prompt's tail, and what it refuses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groupwise.rewards.contract import Record
from groupwise.rewards.text import format
from groupwise.rewards.text.format import Format
from groupwise.rewards.text.template import parse

THINK = "<think>{}</think>{}"
BOXED = r"<think>{}</think>\boxed{}"


def record(text: str, prompt: str, finish_reason: str = "stop") -> Record:
    return Record("p", "p", prompt, None, {}, text, re.sub("<[^>]*>", "", text), (1,), finish_reason)  # type: ignore[arg-type]


def test_R013_a_block_that_the_template_has_opened_counts():
    done = "nine times two.\n</think>\n18"
    scores = Format(template=THINK).score(
        [
            record(done, "What is 9 * 2?\n<think>\n"),
            record(done, "What is 9 * 2?\n"),
            record("<think>" + done, "What is 9 * 2?\n<think>\n"),
            record("<think>" + done, "Write <think> first.\n"),
        ]
    )
    assert [score.value for score in scores] == [1.0, 0.0, 0.0, 1.0]
    assert [score.correct for score in scores] == [True, False, False, True]
    assert scores[0].reason == "follows the template after <think> of the prompt"
    assert scores[1].reason == "there is </think> where <think> is asked for"
    assert scores[2].reason == "there is <think> where </think> is asked for after <think> of the prompt"


@pytest.mark.parametrize(
    ("template", "prompt", "opened"),
    [
        (THINK, "x <think>", 1),
        (THINK, "x <think> \n\n", 1),
        (THINK, "<think> first", 0),
        (THINK, "x <think>\n\n</think>\n\n", 0),
        ("<think>{?}</think>{}", "x <think>\n\n</think>\n\n", 2),
        ("<a><b>{}</b></a>", "<a>", 1),
        ("<a><b>{}</b></a>", "<a> <b>", 2),
        ("<a><b>{}</b></a>", "<b>", 0),
        (r"<a>\boxed{}</a>", "<a>", 1),
        ("{}#### {}", "####", 0),
        ("{}", "anything", 0),
        ("<a>{}</a>", "", 0),
    ],
)
def test_R013_how_much_of_the_template_the_prompt_has_opened(template, prompt, opened):
    assert parse(template).opened_by(prompt) == opened


def test_R013_a_prompt_that_closed_an_empty_block_leaves_the_answer():
    assert format.grade("18", "<think>{?}</think>{}", prompt="9 * 2?\n<think>\n\n</think>\n\n").correct is True
    assert format.grade("", "<think>{?}</think>{}", prompt="9 * 2?\n<think>\n\n</think>\n\n").correct is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>\none\ntwo\n</think>\n<answer>9</answer>", ""),
        ("  <think>a</think><answer>b</answer>\n", ""),
        ("<think>a < b and {} or </b></think><answer>9</answer>", ""),
        ("<think>a</think><think>b</think><answer>9</answer>", "there is <think> where <answer> is asked for"),
        ("<think>a<think>b</think></think><answer>9</answer>", "there is <think> where </think> is asked for"),
        ("<think></think><answer></answer>", "there is nothing after <think>"),
        ("<think>a</think><answer> \n</answer>", "there is nothing after <answer>"),
        ("<think>a</think><answer>9</answer> done", "there is text after </answer>"),
        ("Well, <think>a</think><answer>9</answer>", "there is text before <think>"),
        ("<think>a</think> so <answer>9</answer>", "there is text after </think>"),
        ("<think>a</think><answer>9", "</answer> is missing"),
        ("<think>a</think><answer>9</answer><answer>9</answer>", "there is a further <answer>"),
        ("<answer>9</answer><think>a</think>", "there is <answer> where <think> is asked for"),
        ("<Think>a</Think><answer>9</answer>", "there is <answer> where <think> is asked for"),
        ("< think>a</think><answer>9</answer>", "there is </think> where <think> is asked for"),
        ("", "<think> is missing"),
    ],
)
def test_R060_think_and_answer(text, said):
    score = format.grade(text)
    assert score.reason == (said or "follows the template")
    assert (score.value, score.correct) == ((0.0, False) if said else (1.0, True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"It is \boxed{15}.", ""),
        (r"\boxed{\frac{1}{2}}", ""),
        (r"\boxed{a \} b}", ""),
        (r"\boxed{1}, no, \boxed{2}", ""),
        ("It is 15.", r"there is no \boxed{...} in the text"),
        (r"\boxed{}", r"the last \boxed{} is empty in the text"),
        (r"\boxed{1} or \boxed{ }", r"the last \boxed{} is empty in the text"),
        (r"\boxed{12} no, \boxed{", r"the last \boxed{ isn't closed in the text"),
        (r"\boxed{\frac{1}{2}", r"the last \boxed{ isn't closed in the text"),
        (r"\boxed{1\}", r"the last \boxed{ isn't closed in the text"),
        (r"\boxed{\{1, 2}", ""),
        (r"\boxed 5", r"there is no \boxed{...} in the text"),
    ],
)
def test_a_box_is_the_last_one_closed_and_filled(text, said):
    assert format.grade(text, r"\boxed{}").reason == (said or "follows the template")


def test_a_box_is_looked_for_in_its_own_section():
    assert format.grade(r"<think>\boxed{3} is wrong</think>\boxed{4}", BOXED).correct is True
    assert format.grade(r"<think>it is \boxed{4}</think>It is 4.", BOXED).reason == (
        r"there is no \boxed{...} after </think>"
    )
    assert format.grade(r"<think>{}\text{x}</think>\text{x}", r"<think>{}</think>\text{}").correct is True


@pytest.mark.parametrize(
    ("template", "text", "correct"),
    [
        ("{?}<answer>{}</answer>{?}", "Well, <answer>9</answer>, as said", True),
        ("{?}<answer>{}</answer>{?}", "<answer>9</answer>", True),
        ("{?}<answer>{}</answer>{?}", "<answer>8</answer> or <answer>9</answer>", False),
        ("{}\n#### {}", "so 4 * 2 = 8.\n#### 8", True),
        ("{}\n#### {}", "#### 8", False),
        ("{}\n#### {}", "one\n#### 7\n#### 8", False),
        ("Reasoning:\n{}\nFinal answer: {}", "Reasoning: an answer is near.\nFinal answer: 8", True),
        ("Answer: {} Final Answer: {}", "Answer: 7 Final Answer: 8", True),
        ("```python\n{}\n```", "```python\nx = 1\n```", True),
        ("```python\n{}\n```", "```python\nx = 1\n```\n```python\n```", False),
        ("<|tool_call|>{}<|end|>", "<|tool_call|>f()<|end|>", True),
        ("<a>\n<b>{}</b>\n</a>", "<a><b>x</b></a>", True),
    ],
)
def test_other_templates(template, text, correct):
    score = format.grade(text, template)
    assert score.correct is correct, score.reason


@pytest.mark.parametrize("reason", ["length", "aborted"])
def test_what_was_cut_off_in_its_last_section_has_not_ended_it(reason):
    assert format.grade("<think>a</think>18 is", THINK, finish_reason=reason).reason == "it was cut off after </think>"
    assert format.grade("<think>a</think><answer>9</answer>", finish_reason=reason).correct is True
    assert format.grade(r"It is \boxed{5} bec", r"\boxed{}", finish_reason=reason).correct is True
    assert Format(template=THINK).score([record("<think>a</think>18 is", "", reason)])[0].correct is False


def test_R060_the_example_of_the_prompt_is_held_against_the_template():
    Format(example="<think> reasoning process here </think>\n<answer> answer here </answer>")
    with pytest.raises(ValidationError, match="example doesn't follow template.*: <answer> is missing; mend either"):
        Format(example="<think> reasoning process here </think><solution> here </solution>")
    with pytest.raises(ValidationError, match="there is text after </answer>; mend either"):
        Format(example="<think>a</think><answer>b</answer> The end.")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("", "has no hole that must be filled"),
        ("<think></think>", "has no hole that must be filled"),
        ("<a>{?}</a>", "has no hole that must be filled"),
        ("<a>{}{}</a>", "two holes side by side"),
        ("<a>{} {?}</a>", "two holes side by side"),
        (r"\boxed{}\text{}", "two holes side by side; put a tag or a word between"),
        (r"{?}\boxed{}{?}", r"two holes side by side; \\boxed{} already allows text around it: leave the {\?} out"),
        (r"<a>\boxed{} {}</a>", r"two holes side by side; \\boxed{} already allows text around it: leave the {} out"),
    ],
)
def test_templates_that_ask_for_nothing_or_for_the_impossible_are_refused(template, said):
    with pytest.raises(ValidationError, match=said):
        Format(template=template)


TAGS = [f"<{name}>" for name in ("a", "b", "c", "d")]
# No letter of a tag: else two texts side by side could spell the tag that was taken out between them.
filled = st.text(alphabet="xy <>/\\{}\n", min_size=1, max_size=12).filter(str.strip)


@given(st.lists(filled, min_size=1, max_size=4), st.data())
def test_a_filled_template_follows_and_one_spoilt_in_any_way_does_not(texts, data):
    tags = TAGS[: len(texts)]
    template = "".join(f"{tag}{{}}" for tag in tags)
    pieces = [part for pair in zip(tags, texts, strict=True) for part in pair]
    assert format.grade("".join(pieces), template).correct is True
    assert format.grade("".join(pieces[1:]), template, prompt=f"begin: {tags[0]}\n").correct is True
    place = data.draw(st.integers(0, len(pieces) - 1))
    without = "".join(pieces[:place] + pieces[place + 1 :])
    twice = "".join([*pieces[:place], tags[0], *pieces[place:]])
    assert format.grade(without, template).correct is False
    assert format.grade(twice, template).correct is False
    assert format.grade("x" + "".join(pieces), template).correct is False


@given(st.text(alphabet="<>/think answer{}\\boxed\n", max_size=80))
def test_any_text_has_a_verdict_with_a_reason(text):
    for template in (format.THINK_ANSWER, THINK, BOXED, r"\boxed{}"):
        score = format.grade(text, template, prompt=text)
        assert score.value in (0.0, 1.0) and score.correct is (score.value == 1.0) and score.reason
