"""What a function may return, and what becomes of everything else."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupwise.rewards.contract import Record
from groupwise.rewards.workers.normalise import LONGEST_REASON, Outcome, call_function, from_plain, to_plain
from groupwise.types import Score

RECORD = Record("g", "p", "2+2=", (), {}, "4", "4", (5,) * 9, "stop")


def returned(result: object) -> Outcome:
    (outcome,) = call_function(lambda record: result, [RECORD], group=False, name="f")
    return outcome


@pytest.mark.parametrize(
    ("result", "value", "correct"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (numpy.bool_(True), 1.0, True),
        (1, 1.0, None),
        (-0.25, -0.25, None),
        (numpy.float32(0.5), 0.5, None),
        (Fraction(1, 4), 0.25, None),
        (None, None, None),
        (Score(0.3, correct=True), 0.3, True),
        (Score(None, reason="nothing to compare"), None, None),
    ],
)
def test_each_outcome(result, value, correct):
    outcome = returned(result)
    assert (outcome.score.value, outcome.score.correct, outcome.fault) == (value, correct, "")


@pytest.mark.parametrize(
    "result",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        10**400,
        "1.0",
        [1.0],
        Decimal(1),
        object(),
        Score(float("nan")),
        Score("1"),  # type: ignore[arg-type]
        Score(1.0, correct=1),  # type: ignore[arg-type]
        Score(1.0, reason=3),  # type: ignore[arg-type]
        Score(1.0, parts={"a": float("inf")}),
        Score(1.0, parts=[1]),  # type: ignore[arg-type]
        Score(1.0, step_rewards=(1.0,)),
        Score(1.0, step_rewards=(1.0, 0.0), step_ends=(5,)),
        Score(1.0, step_rewards=(1.0, 0.0), step_ends=(5, 5)),
        Score(1.0, step_rewards=(1.0, 0.0), step_ends=(5, 9)),  # the record has 9 tokens
        Score(1.0, step_rewards=(float("nan"),), step_ends=(5,)),
        Score(1.0, step_rewards=(1.0,), step_ends=(0.5,)),  # type: ignore[arg-type]
    ],
)
def test_R023_anything_else_is_a_fault_that_names_the_function(result):
    outcome = returned(result)
    assert outcome.fault and outcome.score.value is None and outcome.score.correct is None
    assert outcome.score.reason.startswith("f ")


def test_none_carries_no_reason_and_a_fault_always_does():
    assert returned(None).score.reason == ""
    assert "f returned nan" in returned(float("nan")).score.reason


def test_reasons_are_bounded():
    def shout(record):
        raise ValueError("a" * 1_000_000)

    (outcome,) = call_function(shout, [RECORD], group=False, name="f")
    assert len(outcome.score.reason) == LONGEST_REASON
    assert len(returned(Score(1.0, reason="a" * 1_000_000)).score.reason) == LONGEST_REASON


def test_a_group_function_gives_one_result_for_each_record():
    records = [RECORD, RECORD]

    def call(function):
        return call_function(function, records, group=True, name="f")

    assert [o.score.value for o in call(lambda rs: [0.5 for _ in rs])] == [0.5, 0.5]
    assert [o.score.value for o in call(lambda rs: (x for x in (True, "x")))] == [1.0, None]
    for wrong in (lambda rs: [1.0], lambda rs: [], lambda rs: None, lambda rs: 1.0, lambda rs: 1 / 0):
        outcomes = call(wrong)
        assert len(outcomes) == 2 and all(o.fault and o.score.value is None for o in outcomes)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    value=st.none() | numbers,
    correct=st.none() | st.booleans(),
    reason=st.text(max_size=20),
    parts=st.dictionaries(st.text(max_size=5), st.none() | numbers, max_size=3),
    steps=st.none() | st.lists(st.none() | numbers, max_size=4),
    fault=st.sampled_from(["", "reward", "machine"]),
)
def test_an_outcome_crosses_the_channel_unchanged(value, correct, reason, parts, steps, fault):
    ends = None if steps is None else tuple(range(2, 2 + 3 * len(steps), 3))
    score = Score(value, correct, reason, parts, None if steps is None else tuple(steps), ends)
    outcome = Outcome(score, fault)
    assert from_plain(json.loads(json.dumps(to_plain(outcome))), "f") == outcome


def test_a_worker_can_not_smuggle_in_what_a_function_can_not_return():
    plain = to_plain(Outcome(Score(1.0)))
    for field, value in (("value", float("nan")), ("value", "1"), ("correct", 1), ("parts", {"a": "b"})):
        assert from_plain({**plain, field: value}, "f").fault
    for broken in (7, {}, {**plain, "parts": 3}, {**plain, "step_rewards": 1, "step_ends": 1}):
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
            from_plain(broken, "f")  # type: ignore[arg-type]
