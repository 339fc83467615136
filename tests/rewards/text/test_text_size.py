"""Long texts of any kind are read in linear time: what is quadratic never ends here."""

from __future__ import annotations

import pytest

from groupwise.rewards.text import constraints, format, language, repetition
from groupwise.rewards.text.counts import COUNTS

PIECES = [
    "a",
    "a ",
    "!x",
    ".)",
    "*a",
    "[a",
    "- a\n",
    "\n",
    "<think>",
    "<think",
    "{",
    "\\",
    "\\boxed{",
    "\\boxed{}",
    "。",
    "`",
]


@pytest.mark.parametrize("piece", PIECES)
def test_R066_anything_is_read_in_linear_time(piece):
    text = piece * (250_000 // len(piece)) + "x"
    for template in (format.THINK_ANSWER, r"<think>{}</think>\boxed{}", r"\boxed{}"):
        assert format.grade(text, template).reason
    assert format.grade("a</think><answer>b</answer>", prompt=text).correct is False
    asked = [
        *({"kind": kind, "min": 0} for kind in COUNTS),
        {"kind": "include", "texts": [piece.strip() or "x", "xy"], "whole_words": True, "ignore_case": True},
        {"kind": "json"},
    ]
    assert constraints.grade(text, asked).value is not None
    assert repetition.grade(text.split(), 3).value is not None
    language.grade(text, "zh")


def test_R066_an_answer_anywhere_in_a_megabyte_is_found():
    filler = "and so on " * 50_000
    assert format.grade(f"<think>{filler}</think><answer>{filler}</answer>").correct is True
    assert format.grade(rf"\boxed{{58}} {filler}", r"\boxed{}").correct is True
