"""What must not change a verdict: how an answer is wrapped and, where mathematics is symmetric, which side is which."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

from groupwise.rewards.math.grading import grade_here

CASES = Path(__file__).parents[1] / "data" / "math_cases_own.jsonl.gz"
Case = tuple[str, str, str, str]
"""Id, kind, gold, and what the prediction has in its only box."""

ONE_SIDED = frozenset(
    (
        "adversarial",
        "base",
        "boxed_nesting",
        "choice",
        "decimal",
        "format_exploit",
        "integer_commas",
        "money",
        "prose",
        "real_model_math",
    )
)
"""Kinds in which gold and answer aren't alike: a base may be missing, and a comma be a decimal one, in an answer only;
no gold tries to please, and a gold may come with a lead-in."""

WRAPPERS = {
    "dollars": r"$\boxed{@}$",
    "two dollars": "So\n$$\n\\boxed{@}\n$$",
    "brackets": r"Thus \[\boxed{@}\]",
    "sentence": r"Therefore, the answer is \(\boxed{@}\).",
    "bold": r"**Final answer:** **$\boxed{@}$**",
    "full stop": r"\boxed{@.}",
    "spaces": r"\boxed{ \; @ \, }",
    "braces": r"\boxed{{@}}",
    "display style": r"\boxed{\displaystyle @}",
    "dollars inside": r"\boxed{$@$}",
    "two boxes": r"\boxed{\boxed{@}}",
    "said twice": "I find $\\boxed{@}$.\n\n**Answer:** $\\boxed{@}$",
    "thinking": "<think>\nPerhaps $\\boxed{0}$? No.\n</think>\n\n$\\boxed{@}$",
    "end token": r"The final answer is $\boxed{@}$.<|im_end|>",
}


@cache
def boxed_cases() -> tuple[Case, ...]:
    """The cases that are short and whose prediction has one box that is closed and holds something."""
    found: list[Case] = []
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            prediction = case["prediction"]
            if case["kind"] == "adversarial":
                continue
            if len(prediction) + len(case["gold"]) < 400 and prediction.count("boxed{") == 1:
                answer = in_the_box(prediction)
                if answer.strip():
                    found.append((case["id"], case["kind"], case["gold"], answer))
    return tuple(found)


def in_the_box(prediction: str) -> str:
    """What stands between the braces of its box; empty where the box isn't closed."""
    tail = prediction.split("boxed{")[1]
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", tail, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return tail[: brace.start()]
    return ""


def correct(text: str, gold: str) -> bool:
    """Whether it is right; not scored is not right."""
    return grade_here(text, gold).correct is True


def boxed(answer: str) -> str:
    """The answer in a box."""
    return "\\boxed{" + answer + "}"


@cache
def verdict_in_a_box(answer: str, gold: str) -> bool:
    """The verdict that no wrapper may change."""
    return correct(boxed(answer), gold)


def changed_by(wrapper: str, step: int, start: int = 0) -> list[Case]:
    """Of every `step`-th case those whose verdict the wrapper changes."""
    cases = boxed_cases()[start::step]
    pattern = WRAPPERS[wrapper]
    return [
        case for case in cases if correct(pattern.replace("@", case[3]), case[2]) != verdict_in_a_box(case[3], case[2])
    ]


def asymmetric() -> list[Case]:
    """The cases in which gold and answer can't be swapped."""
    cases = [case for case in boxed_cases() if case[1] not in ONE_SIDED]
    assert len(cases) > 700
    return [case for case in cases if verdict_in_a_box(case[3], case[2]) != correct(boxed(case[2]), case[3])]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_changes_no_verdict(wrapper: str) -> None:
    start = list(WRAPPERS).index(wrapper)
    assert changed_by(wrapper, 5, start % 5) == []


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_changes_no_verdict_of_any_case(wrapper: str) -> None:
    assert changed_by(wrapper, 1) == []


def test_gold_and_answer_can_be_swapped() -> None:
    assert asymmetric() == []


def test_a_sign_put_before_the_answer_makes_it_wrong() -> None:
    """Where the answer begins with a positive number and nothing but words follow."""
    single = re.compile(r"\\?\$?[1-9][\d.,]*(?:\\%|%|\s*\\(?:text|mathrm)\{[^}]*\})?")
    cases = [case for case in boxed_cases() if single.fullmatch(case[3]) and verdict_in_a_box(case[3], case[2])]
    assert len(cases) > 100
    assert [case for case in cases if correct(boxed("-" + case[3]), case[2])] == []
