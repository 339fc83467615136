"""Each setting of the maths verifier's policy: what it allows, what it refuses, and that the verdict names it."""

from __future__ import annotations

import pytest

from groupwise.rewards.math.grading import grade_here
from groupwise.rewards.math.policy import Policy


@pytest.mark.parametrize(
    ("choices", "gold", "answer", "by_default", "under_it"),
    [
        ({"percent": "strict"}, "28\\%", "28", True, False),
        ({"percent": "value"}, "28\\%", "28", True, False),
        ({"digits": 5}, "\\sqrt{2}", "1.41421356", False, True),
        ({"digits": 20}, "\\frac{1}{3}", "0.3333333333333333", True, False),
        ({"units": "same"}, "5\\text{ m}", "500\\text{ cm}", True, False),
        ({"units": "ignore"}, "5\\text{ m}", "5\\text{ km}", False, True),
        ({"base": "required"}, "204_5", "204", True, False),
        ({"ordered_lists": True}, "1,2", "2,1", True, False),
        ({"ordered_lists": True}, "\\{1,2\\}", "\\{2,1\\}", True, True),
        ({"subset": True}, "1,2,3", "1,3", False, True),
        ({"subset": True}, "1,2,3", "1,4", False, False),
        ({"forms": False}, "(1,\\infty)", "x>1", True, False),
        ({"forms": False}, "7:32", "\\frac{7}{32}", True, False),
        ({"forms": False}, "90^\\circ", "\\frac{\\pi}{2}", True, False),
        ({"decimal_comma": False}, "1000.99", "1000,99", True, False),
        ({"case": True}, "\\text{Evelyn}", "\\text{evelyn}", True, False),
    ],
)
def test_a_choice_changes_the_verdict(
    choices: dict[str, object], gold: str, answer: str, by_default: bool, under_it: bool
) -> None:
    text = f"\\boxed{{{answer}}}"
    assert grade_here(text, gold).correct is by_default
    assert grade_here(text, gold, policy=Policy(**choices)).correct is under_it  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choices", "gold", "answer", "named"),
    [
        ({}, "28\\%", "28", "the same by the policy percent = either;"),
        ({}, "\\frac{1}{3}", "0.3333333333333333", "the same by the policy digits = 15;"),
        ({}, "60\\text{ seconds}", "1\\text{ minute}", "the same by the policy units = convert;"),
        ({}, "204_5", "204", "the same by the policy base = optional;"),
        ({}, "1,2", "2,1", "the same by the policy ordered_lists = false;"),
        ({}, "x>1", "(1,\\infty)", "the same by the policy forms = true;"),
        ({}, "1000.99", "1000,99", "the same by the policy decimal_comma = true;"),
        ({}, "\\text{Evelyn}", "\\text{evelyn}", "the same by the policy case = false;"),
        ({}, "D", "d", "the same by the policy case = false;"),
        ({}, "5\\text{ m}, 28\\%", "500\\text{ cm}, 28", "the same by the policy percent = either, units = convert;"),
        ({"units": "ignore"}, "5\\text{ m}", "5\\text{ km}", "the same by the policy units = ignore;"),
        ({"subset": True}, "\\{1,2,3\\}", "\\{1,3\\}", "the same by the policy subset = true;"),
        ({"percent": "strict"}, "28\\%", "28", "another answer by the policy percent = strict;"),
        ({"percent": "bare"}, "28\\%", "0.28", "another answer by the policy percent = bare;"),
        ({}, "\\sqrt{2}", "1.41421356", "another answer by the policy digits = 15;"),
        ({"units": "same"}, "5\\text{ m}", "500\\text{ cm}", "another answer by the policy units = same;"),
        ({"base": "required"}, "204_5", "204", "another answer by the policy base = required;"),
        ({"ordered_lists": True}, "1,2", "2,1", "another answer by the policy ordered_lists = true;"),
        ({}, "1,2,3", "1,3", "another answer by the policy subset = false;"),
        ({"forms": False}, "7:32", "\\frac{7}{32}", "another answer by the policy forms = false;"),
        ({"decimal_comma": False}, "1000.99", "1000,99", "another answer by the policy decimal_comma = false;"),
        ({"case": True}, "\\text{Evelyn}", "\\text{evelyn}", "another answer by the policy case = true;"),
        (
            {"percent": "strict", "units": "same"},
            "5\\text{ m}, 28\\%",
            "500\\text{ cm}, 28",
            "another answer by the policy percent = strict, units = same;",
        ),
    ],
)
def test_the_verdict_names_the_policy_that_decided_and_the_text_that_was_taken(
    choices: dict[str, object], gold: str, answer: str, named: str
) -> None:
    reason = grade_here(f"so \\boxed{{{answer}}}", gold, policy=Policy(**choices)).reason  # type: ignore[arg-type]
    assert reason.startswith(f"{answer!r}, in the last box: {named}")


@pytest.mark.parametrize(("gold", "answer"), [("29\\%", "28"), ("2", "7"), ("1,2", "2,3"), ("no", "yes"), ("B", "C")])
def test_what_no_policy_would_accept_is_not_refused_by_one(gold: str, answer: str) -> None:
    score = grade_here(f"\\boxed{{{answer}}}", gold, policy=Policy(percent="strict", forms=False, case=True))
    assert score.correct is False and "policy" not in score.reason


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("28%", "'28%', as the whole text: "),
        ("It is 28%", "'28%', as the last number: "),
        ("It is a share of $28\\%$", "'28\\\\%', as the last formula: "),
        ("The answer is 28%", "'28%', after 'answer is': "),
        (
            "The answer is just what we said some lines before, namely 28%",
            "'28%', as the last number after 'answer is': ",
        ),
    ],
)
def test_the_rule_that_is_named_is_the_one_that_took_the_text(text: str, where: str) -> None:
    assert grade_here(text, "28%").reason.startswith(where)


def test_without_a_policy_that_decided_none_is_named() -> None:
    assert "policy" not in grade_here("\\boxed{0.5}", "\\frac12").reason


@pytest.mark.parametrize("answer", ["{4,-9}", "-\\$30", "\\$", "\\text{}", "2x^{\\frac{3}{2}}", "-40\\text{ min}"])
def test_signs_and_empty_texts_are_never_dropped(answer: str) -> None:
    for gold in ("\\text{yes}", "7/2", "40\\text{ min}", "30", "5\\text{ cm}"):
        assert grade_here(f"\\boxed{{{answer}}}", gold).correct is False, gold
