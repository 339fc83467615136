"""Our own cases for the maths verifier: right answers, near misses and attacks of 36 kinds.

The rows numbered under 200 were labelled before there was a verifier, those under 300 after a look at its verdicts on
the first, under 400 for faults that fuzzing has found, and the others last. A row is `policy_sensitive` where its label
is one of two that can be defended; those are counted apart.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupwise.rewards.math.grading import grade_here
from groupwise.rewards.math.verifier import Verifier

CASES = Path(__file__).parents[1] / "data" / "math_cases_own.jsonl.gz"
Row = dict[str, Any]

MISSED = frozenset({"own-format_exploit-449", "own-format_exploit-450"})
"""Right answers that are refused: a label in the box, as in "Total: 17", may say anything of what follows."""
POLICY_AGREEMENT = 0.75
"""Share of the choice-dependent rows decided as their labels have it."""


def rows() -> list[Row]:
    """All of them."""
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def plain_verdicts() -> list[tuple[Row, bool | None]]:
    """Each row that is no attack, with whether it is right."""
    plain = [row for row in rows() if row["kind"] != "adversarial"]
    return [(row, grade_here(row["prediction"], row["gold"]).correct) for row in plain]


@pytest.fixture(scope="module")
def attacks() -> Iterator[list[tuple[Row, bool | None, float]]]:
    """Each attack, with whether it is right and the CPU seconds it took, by workers that are killed at a limit."""
    hostile = [row for row in rows() if row["kind"] == "adversarial"]
    with Verifier(workers=2, wall_seconds=120) as verifier:
        outcomes = verifier.outcomes([(row["prediction"], row["gold"]) for row in hostile])
    yield [(row, outcome.score.correct, outcome.cpu_seconds) for row, outcome in zip(hostile, outcomes, strict=True)]


def test_no_wrong_answer_is_paid(plain_verdicts: list[tuple[Row, bool | None]]) -> None:
    clear = [(row, correct) for row, correct in plain_verdicts if not row["policy_sensitive"]]
    assert len(clear) > 1400
    assert [row for row, correct in clear if correct and not row["expected"]] == []


def test_every_right_answer_is_paid(plain_verdicts: list[tuple[Row, bool | None]]) -> None:
    refused = {
        row["id"]
        for row, correct in plain_verdicts
        if row["expected"] and not row["policy_sensitive"] and correct is not True
    }
    assert refused == MISSED


def test_choices_mostly_go_as_labelled(plain_verdicts: list[tuple[Row, bool | None]]) -> None:
    choices = [(row, correct) for row, correct in plain_verdicts if row["policy_sensitive"]]
    agreed = sum((correct is True) == row["expected"] for row, correct in choices)
    assert agreed >= POLICY_AGREEMENT * len(choices)


def test_an_attack_is_answered_within_the_limits(attacks: list[tuple[Row, bool | None, float]]) -> None:
    assert len(attacks) > 150
    clear = [(row, correct) for row, correct, _ in attacks if not row["policy_sensitive"]]
    assert [row["id"] for row, correct in clear if correct is None and row["expected"]] == []
    assert [(row["id"], seconds) for row, _, seconds in attacks if seconds > 3] == []


def test_no_attack_is_paid(attacks: list[tuple[Row, bool | None, float]]) -> None:
    clear = [(row["id"], correct, row["expected"]) for row, correct, _ in attacks if not row["policy_sensitive"]]
    assert [one for one in clear if bool(one[1]) != one[2]] == []
