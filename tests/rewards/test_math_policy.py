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
    ("gold", "answer", "named"),
    [
        ("28\\%", "28", "percent"),
        ("\\frac{1}{3}", "0.3333333333333333", "digits"),
        ("60\\text{ seconds}", "1\\text{ minute}", "units"),
        ("204_5", "204", "base"),
        ("x>1", "(1,\\infty)", "forms"),
        ("1000.99", "1000,99", "decimal_comma"),
    ],
)
def test_the_verdict_names_the_policy_that_decided_and_the_text_that_was_taken(
    gold: str, answer: str, named: str
) -> None:
    reason = grade_here(f"so \\boxed{{{answer}}}", gold).reason
    assert f"by the policy {named}" in reason and "in the last box" in reason


def test_without_a_policy_that_decided_none_is_named() -> None:
    assert "policy" not in grade_here("\\boxed{0.5}", "\\frac12").reason


@pytest.mark.parametrize("answer", ["{4,-9}", "-\\$30", "\\$", "\\text{}", "2x^{\\frac{3}{2}}", "-40\\text{ min}"])
def test_signs_and_empty_texts_are_never_dropped(answer: str) -> None:
    for gold in ("\\text{yes}", "7/2", "40\\text{ min}", "30", "5\\text{ cm}"):
        assert grade_here(f"\\boxed{{{answer}}}", gold).correct is False, gold
