"""Which answers are the same, by the reward that judges them."""

from __future__ import annotations

import pytest

from groupwise.evaluating.answers import reader_of, vote_of
from groupwise.evaluating.measures import means, measure_greedy
from groupwise.rewards.exact import Exact
from groupwise.rewards.math.reward import Math
from groupwise.rewards.number import Number
from groupwise.rewards.text.repetition import Repetition
from groupwise.types import Completion, Group, Prompt, Score, Segment

WRONG = Score(0.0, False)


@pytest.mark.parametrize(
    ("reward", "same", "other"),
    [
        (Exact(), [" 7\n", "7"], "8"),
        (Exact(ignore_case=True), ["Paris", "PARIS"], "Rome"),
        (Number(), ["so 1,200 it is", "The answer is 1200.0", "\\boxed{1200}"], "1201"),
        (Math(), ["\\boxed{x + 1}", "The answer is $x+1$."], "\\boxed{x+2}"),
    ],
)
def test_an_answer_is_what_the_reward_reads(reward: Exact | Number | Math, same: list[str], other: str) -> None:
    reader = reader_of([Repetition(), reward])
    assert reader is not None
    votes = {vote_of(WRONG, text, False, reader) for text in same}
    assert len(votes) == 1 and None not in votes
    assert vote_of(WRONG, other, False, reader) not in votes
    assert vote_of(WRONG, "", False, reader) is None


def test_right_answers_are_one_however_written_and_no_wrong_one_is_among_them() -> None:
    reader = reader_of([Math()])
    assert reader is not None
    right = Score(1.0, True)
    halves = {vote_of(right, text, False, reader) for text in ("\\boxed{1/2}", "\\boxed{0.5}", "\\boxed{\\frac{1}{2}}")}
    assert len(halves) == 1
    assert vote_of(WRONG, "\\boxed{right}", False, reader) not in halves
    assert reader_of([Repetition()]) is None


def test_what_is_not_judged_is_left_out_and_rewards_are_shown_where_they_say_more() -> None:
    def group(name: str, score: Score) -> Group:
        completion = Completion((Segment((5,), (0.0,)),), "stop")
        return Group(f"{name}#0", Prompt(name, (1,), name), (completion,), (score,))

    groups = [group("a", Score(1.0, True)), group("b", Score(None, None, "broke")), group("c", Score(0.0, False))]
    assert measure_greedy(groups) == {"greedy": {"a": 1.0, "c": 0.0}}
    shaped = measure_greedy([*groups, group("d", Score(-2.5, False)), group("e", Score(0.5, None))])
    assert shaped["greedy"] == {"a": 1.0, "c": 0.0, "d": 0.0}
    assert shaped["greedy reward"] == {"a": 1.0, "c": 0.0, "d": -2.5, "e": 0.5}
    assert means(shaped)["greedy reward"].value == pytest.approx(-0.25)
    assert means({"greedy": {}}) == {}
