"""The built-in task `worked_sums` and its step-wise verifier."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from groupwise.models.tiny_char import tokenizer, vocabulary
from groupwise.rewards.records import record_for
from groupwise.tasks.worked_sums import WorkedSums, verify
from groupwise.types import Completion, Prompt, Score, Segment

TOKENS = vocabulary()
TOKENIZER = tokenizer(TOKENS)
STOP = TOKENS["<eos>"]


def score(text: str, numbers: Any = (2, 3, 4), finish_reason: Any = "stop", **named: Any) -> Score:
    """What the verifier says of a completion, sampled character by character."""
    ids = tuple(TOKENS[character] for character in text) + ((STOP,) if finish_reason == "stop" else ())
    prompt = Prompt("p", (5,), "2+3+4=", None, {"numbers": list(numbers)})
    completion = Completion((Segment(ids, tuple(-1.0 for _ in ids)),), finish_reason)
    return verify(record_for(prompt, completion, TOKENIZER, [STOP], "p#0", **{"with_token_ends": True, **named}))


@pytest.mark.parametrize("numbers", [2, 3, 4])
def test_every_demonstration_is_right_in_every_step(numbers):
    rows = WorkedSums(numbers=numbers).rows("test", 0)
    assert rows
    for row in rows[:300]:
        found = score(row["completion"], row["numbers"])
        assert found.correct is True and found.value == 1.0
        assert found.step_rewards == (1.0,) * (numbers - 1)
        assert row["completion"].split("=")[-1] == row["answer"] == str(sum(row["numbers"]))
        assert row["prompt"] == "+".join(map(str, row["numbers"])) + "="


def test_the_test_sums_are_never_trained_on_and_the_seed_only_changes_the_order():
    train, test = ({row["id"] for row in WorkedSums().rows(split, 0)} for split in ("train", "test"))
    assert len(train) == 800 and len(test) == 200 and not train & test
    assert [row["id"] for row in WorkedSums().rows("test", 1)] != [row["id"] for row in WorkedSums().rows("test", 0)]
    assert {row["id"] for row in WorkedSums().rows("test", 1)} == test


@pytest.mark.parametrize(
    "text, finish_reason, rewards, ends, correct",
    [
        ("5+4=9", "stop", (1, 1), (3, 5), True),
        ("9", "stop", (0,), (1,), False),  # the answer without its steps
        ("5+4=8", "stop", (1, 0), (3, 5), False),
        ("6+4=10", "stop", (0, 0), (3, 6), False),  # nothing is right after an error
        ("6+4=9", "stop", (0, 0), (3, 5), True),  # the outcome alone knows no steps
        ("5+4", "stop", (0,), (3,), False),  # ends before the answer
        ("5+4=", "stop", (1, 0), (3, 4), False),  # ends where a step was to come
        ("5+4=9=9", "stop", (1, 1, 0), (3, 5, 7), False),  # a step that adds nothing up
        ("2+3+4=5+4=9", "stop", (0, 0, 0), (5, 9, 11), False),
        ("05+4=9", "stop", (0, 0), (4, 6), True),
        ("4+5=9", "stop", (0, 0), (3, 5), True),
        ("==9", "stop", (0, 0, 0), (0, 1, 3), False),
        ("", "stop", (0,), (0,), False),
        ("5+4=9", "length", (1, 0), (3, 4), False),  # cut: it may not have been done
        ("5+4=", "length", (1,), (3,), False),
        ("", "length", (), (), False),
        ("5+4=9", "aborted", (None, None), (3, 4), None),
    ],
)
def test_R096_one_reward_for_each_step_on_its_last_sampled_token(text, finish_reason, rewards, ends, correct):
    found = score(text, finish_reason=finish_reason)
    assert found.step_rewards == rewards and found.step_ends == ends
    assert found.correct is correct and found.value == (None if correct is None else float(correct))


def test_R096_a_token_of_several_characters_ends_the_steps_it_holds():
    class Answer:
        columns = {"numbers": [2, 3, 4]}
        text, finish_reason = "5+4=9=9", "stop"
        token_ids, token_ends = (70, 71, 72, 1), (1, 6, 7, 7)  # "5", "+4=9=", "9", the terminator

    found = verify(Answer())
    assert found.step_rewards == (1.0, 0.0) and found.step_ends == (1, 3)


def test_without_token_ends_the_score_is_that_of_the_outcome():
    found = score("5+4=9", with_token_ends=False)
    assert (found.value, found.correct, found.step_rewards, found.step_ends) == (1.0, True, None, None)


def test_the_verifier_loads_without_torch():
    program = "import sys, groupwise.tasks.worked_sums; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
