"""The answers that a verifier is tried on."""

from __future__ import annotations

import pytest

from groupwise.checking.probes import digit_changed, gold_probes, sample_rows, sign_changed, spoilt_probes
from groupwise.rewards import Exact, Function, Number
from groupwise.rewards.code import Code
from groupwise.rewards.math import Math

ROW = {"id": "a", "prompt": "6*7=", "answer": "42"}
OTHER = {"id": "b", "prompt": "6*8=", "answer": "48"}


def texts(settings, row) -> dict[str, str]:
    return {probe.name: probe.text for probe in gold_probes(settings, row)}


def test_golds_are_written_as_the_reward_documents_them() -> None:
    assert texts(Exact(), ROW) == {"alone": "42"}
    assert texts(Number(), ROW) == {
        "in a box": "\\boxed{42}",
        "after ####": "#### 42",
        "in a sentence": "The answer is 42.",
    }
    assert texts(Number(column="gold"), {"id": "a", "gold": "6 * 7 = 42\n#### 1,042"})["after ####"] == "#### 1,042"


def test_golds_of_mathematics_and_programs() -> None:
    row = {"id": "a", "gold": "Therefore $\\boxed{\\frac{1}{2}}$."}
    assert texts(Math(column="gold"), row)["in a box"] == "\\boxed{\\frac{1}{2}}"
    assert texts(Math(column="gold"), {"id": "a", "gold": "see the figure"}) == {}
    program = "def f(x):\n    return x + 1"
    (probe,) = gold_probes(Code(solution_column="code"), {"id": "a", "code": program})
    assert program in probe.text and probe.text.startswith("```python")
    assert not list(gold_probes(Code(), {"id": "a", "code": program}))
    assert digit_changed(program) is None


def test_a_users_function_is_tried_with_all_that_the_row_offers() -> None:
    function = Function(file="reward.py")
    assert texts(function, {**ROW, "completion": "It is 42.", "solution": " "}) == {
        "alone": "42", "in a box": "\\boxed{42}", "after ####": "#### 42", "in a sentence": "The answer is 42.",
        "the row's completion": "It is 42.",
    }  # fmt: skip
    assert texts(function, {"id": "a", "prompt": "write a poem"}) == {}


def test_spoilt_answers_keep_the_form_of_the_accepted_one() -> None:
    box, other = (next(gold_probes(Number(), row)) for row in (ROW, OTHER))
    spoilt = {
        probe.name: (probe.kind, probe.text, probe.finish_reason) for probe in spoilt_probes(Number(), box, [other])
    }
    assert spoilt == {
        "nothing": ("nothing", "", "stop"),
        "cut in half": ("cut", "\\boxe", "length"),
        "a digit changed": ("spoilt", "\\boxed{43}", "stop"),
        "the sign changed": ("spoilt", "\\boxed{-42}", "stop"),
        "another row's answer": ("spoilt", "\\boxed{48}", "stop"),
    }


@pytest.mark.parametrize(
    ("gold", "other"), [("42", "42.0"), ("1/2", "0.5"), ("x=5", "5"), ("Paris", "paris"), ("x + 1", "x+1")]
)
def test_an_answer_that_may_be_the_same_is_no_other_answer(gold: str, other: str) -> None:
    rows = [{**ROW, "answer": answer} for answer in (gold, other)]
    settings = Exact()
    one, two = (next(gold_probes(settings, row)) for row in rows)
    assert "another row's answer" not in {probe.name for probe in spoilt_probes(settings, one, [two])}


def test_a_text_taken_whole_from_a_row_is_spoilt_whole() -> None:
    function = Function(file="reward.py")
    mine, theirs = (
        next(gold_probes(function, {"id": n, "completion": text})) for n, text in (("a", "5+4=9"), ("b", "2+1=3"))
    )
    spoilt = {probe.name: probe.text for probe in spoilt_probes(function, mine, [theirs])}
    assert spoilt == {"nothing": "", "cut in half": "5+", "a digit changed": "5+4=0", "another row's answer": "2+1=3"}


@pytest.mark.parametrize(
    ("answer", "spoilt"), [("7", "8"), ("19", "10"), ("1,234.50", "1,234.51"), ("x^{2}y", "x^{3}y"), ("Paris", None)]
)
def test_the_last_digit_is_changed(answer: str, spoilt: str | None) -> None:
    assert digit_changed(answer) == spoilt


@pytest.mark.parametrize(
    ("answer", "spoilt"), [("7", "-7"), ("-3/4", "3/4"), ("+2", "-2"), ("0", None), ("-0.0", None), ("Paris", None)]
)
def test_the_sign_is_changed_where_that_changes_the_number(answer: str, spoilt: str | None) -> None:
    assert sign_changed(answer) == spoilt


def test_rows_are_taken_evenly() -> None:
    rows = [{"id": str(n)} for n in range(10)]
    assert [row["id"] for row in sample_rows(rows, 4)] == ["0", "2", "5", "7"]
    assert sample_rows(rows, 10) == sample_rows(rows, 99) == rows
