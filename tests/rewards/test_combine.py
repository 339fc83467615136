"""Several rewards as one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from groupwise.rewards import build_reward
from groupwise.rewards.combine import Combined, Part
from groupwise.types import Score


class Fixed:
    """A reward that gives these scores."""

    name = "fixed"

    def __init__(self, scores: Sequence[Score]) -> None:
        self.scores, self.closed = list(scores), False

    def check(self, rows) -> None:
        pass

    def score(self, records) -> list[Score]:
        return self.scores

    def close(self) -> None:
        self.closed = True


def combine(*parts: tuple[str, float, Sequence[float | None | Score]]) -> list[Score]:
    made = [
        Part(label, weight, Fixed([s if isinstance(s, Score) else Score(s) for s in scores]))
        for label, weight, scores in parts
    ]
    return Combined(made).score([None] * len(parts[0][2]))  # type: ignore[list-item]


def test_values_are_weighted_and_parts_are_not():
    (score,) = combine(("a", 2.0, [0.5]), ("b", -1.0, [0.25]))
    assert score.value == 0.75
    assert score.parts == {"a": 0.5, "b": 0.25}


def test_R023_none_does_not_apply_and_is_left_out():
    scores = combine(("f1", 1.0, [1, 0, 1, None]), ("f2", 1.0, [None, None, 0.5, None]))
    assert [score.value for score in scores] == [1.0, 0.0, 1.5, None]
    assert scores[3].reason == "no reward applies to this completion"
    assert scores[0].parts == {"f1": 1, "f2": None}


def test_R023_a_reward_that_failed_makes_the_sample_not_scored_and_is_named():
    scores = combine(("f1", 1.0, [Score(None, reason="f1 returned nan"), 1.0]), ("f2", 1.0, [0.5, 0.5]))
    assert [score.value for score in scores] == [None, 1.5]
    assert scores[0].reason == "f1: f1 returned nan" and scores[0].parts == {"f1": None, "f2": 0.5}


def test_a_reward_with_weight_zero_is_only_recorded():
    failed = Score(None, reason="broke")
    scores = combine(("a", 1.0, [0.5, None]), ("seen", 0.0, [failed, Score(1.0, correct=True)]))
    assert [score.value for score in scores] == [0.5, None]
    assert scores[1].correct is True and scores[1].parts == {"a": None, "seen": 1.0}


def test_correct_is_the_first_verdict_and_never_derived_from_the_sum():
    (score,) = combine(
        ("shape", 1.0, [Score(9.0)]),
        ("answer", 1.0, [Score(0.0, correct=False)]),
        ("other", 1.0, [Score(1.0, correct=True)]),
    )
    assert score.value == 10.0 and score.correct is False
    assert combine(("shape", 1.0, [1.0]))[0].correct is None


def test_own_parts_and_steps_are_kept():
    inner = Score(1.0, parts={"tags": 0.5}, step_rewards=(0.1, 0.9), step_ends=(3, 7))
    (score,) = combine(("plain", 1.0, [0.0]), ("format", 1.0, [inner]))
    assert score.parts == {"plain": 0.0, "format": 1.0, "format.tags": 0.5}
    assert (score.step_rewards, score.step_ends) == ((0.1, 0.9), (3, 7))


def test_a_sum_that_overflows_is_not_scored():
    assert combine(("a", 1e308, [1e10]))[0].value is None


def test_reasons_name_their_reward_where_there_are_several():
    a, b = Score(1.0, reason="is the gold"), Score(0.0, reason="no tags")
    assert combine(("a", 1.0, [a]), ("b", 1.0, [b]))[0].reason == "a: is the gold; b: no tags"
    assert combine(("a", 1.0, [a]))[0].reason == "is the gold"


def test_closing_it_closes_every_part():
    rewards = [Fixed([]), Fixed([])]
    Combined([Part(str(n), 1.0, reward) for n, reward in enumerate(rewards)]).close()
    assert all(reward.closed for reward in rewards)


def test_R023_a_function_that_returns_nan_is_named_in_the_run(record, reward_file):
    from groupwise.rewards import Function

    path = reward_file(
        """
        def always_nan(record):
            return float("nan")

        def length(record):
            return float(len(record.text))
        """
    )
    settings = [Function(file=str(path), function=name, workers=1) for name in ("always_nan", "length")]
    reward = build_reward(settings)
    try:
        scores = reward.score([record("a"), record("bc")])
        assert [score.value for score in scores] == [None, None]
        assert all("always_nan returned nan" in score.reason for score in scores)
        assert [score.parts["length"] for score in scores] == [1.0, 2.0]
        assert reward.counters["always_nan"].errors == 2 and reward.counters["length"].errors == 0
    finally:
        reward.close()


def test_labels_must_differ():
    from groupwise.errors import RewardError
    from groupwise.rewards import Exact

    with pytest.raises(RewardError, match="two rewards are called 'exact'"):
        build_reward([Exact(), Exact(column="other")])
    assert [part.label for part in build_reward([Exact(), Exact(label="second")]).parts] == [
        "exact",
        "second",
    ]
