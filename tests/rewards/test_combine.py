"""Several rewards as one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from groupwise.errors import RewardError
from groupwise.rewards import Exact, build_reward
from groupwise.rewards.combine import Combined, Part, normalised
from groupwise.rewards.contract import Record
from groupwise.rewards.text.length import Length
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


def make_record(text: str, group: str, tokens: int = 2) -> Record:
    return Record(group, group, "Say it.", None, {}, text, text, (1,) * tokens, "stop")


def part(label: str, scores: Sequence[float | None | Score], *, weight: float = 1.0, **settings: Any) -> Part:
    """A part whose reward gives these scores."""
    return Part(label, weight, Fixed([s if isinstance(s, Score) else Score(s) for s in scores]), **settings)


def scored(*parts: Part, groups: Sequence[str] | None = None) -> list[Score]:
    """What the parts make of as many completions as their rewards have scores for; by default of one group."""
    count = len(parts[0].reward.scores)  # type: ignore[attr-defined]
    return Combined(parts).score([make_record("", group) for group in groups or ["p"] * count])


def combine(*parts: tuple[str, float, Sequence[float | None | Score]]) -> list[Score]:
    return scored(*[part(label, scores, weight=weight) for label, weight, scores in parts])


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


def test_a_total_that_overflows_is_not_scored():
    assert combine(("a", 1e308, [1e10]))[0].value is None
    assert combine(("a", 1.0, [1.5e308]), ("b", 1.0, [1.5e308]))[0].reason == "the total is inf"
    assert scored(part("a", [1e200]), part("f", [1e200], role="factor"))[0].value is None


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
    with pytest.raises(RewardError, match="two rewards are called 'exact'"):
        build_reward([Exact(), Exact(column="other")])
    assert [part.label for part in build_reward([Exact(), Exact(label="second")]).parts] == [
        "exact",
        "second",
    ]


def test_a_part_is_what_its_settings_say():
    part = Part.of(Exact(label="form", role="gate"), Path())
    assert (part.label, part.weight, part.role, part.normalise) == ("form", 1.0, "gate", "none")
    assert Part.of(Exact(normalise="group", weight=0.5), Path()).normalise == "group"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"role": "gate", "weight": 0.5}, "weight = 0.5 means nothing for a gate"),
        ({"role": "factor", "weight": -1}, "weight = -1 means nothing for a factor"),
        ({"role": "factor", "normalise": "group"}, 'normalise = "group" is for terms'),
        ({"role": "product"}, "'term', 'factor' or 'gate'"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        Exact(**settings)


def test_a_combination_needs_a_term():
    with pytest.raises(RewardError, match="no reward adds to the total: form is a gate; give one role"):
        Combined([part("form", [], role="gate")])
    with pytest.raises(
        RewardError, match="the total: form is a gate, seen has weight 0, worth is a factor; give one role"
    ):
        Combined([part("form", [], role="gate"), part("seen", [], weight=0.0), part("worth", [], role="factor")])


def test_factors_multiply_the_sum():
    (score,) = scored(part("a", [2.0]), part("b", [1.0], weight=0.5), part("f", [0.5], role="factor"))
    assert score.value == 1.25 and score.parts == {"a": 2.0, "b": 1.0, "f": 0.5}
    assert scored(part("a", [2.0]), part("f", [-0.5], role="factor"), part("g", [3.0], role="factor"))[0].value == -3.0


@pytest.mark.parametrize(("gate", "total"), [(1.0, 2.0), (0.2, 2.0), (7.0, 2.0), (0.0, 0.0), (-3.0, 0.0), (None, 2.0)])
def test_a_gate_lets_the_sum_through_or_makes_it_0(gate, total):
    (score,) = scored(part("a", [2.0]), part("form", [gate], role="gate"))
    assert score.value == total and score.parts == {"a": 2.0, "form": gate}


def test_behind_a_closed_gate_nothing_is_right_and_a_gate_alone_makes_nothing_right():
    right, wrong = Score(1.0, correct=True), Score(0.0, correct=False)
    verdicts = scored(
        part("form", [right, wrong, right, wrong, right], role="gate"),
        part("answer", [right, right, wrong, wrong, 1.0]),
    )
    assert [score.correct for score in verdicts] == [True, False, False, False, None]
    assert [score.value for score in verdicts] == [1.0, 0.0, 0.0, 0.0, 1.0]


def test_a_closed_gate_decides_even_where_another_reward_failed():
    failed = Score(None, reason="took over 5 s")
    scores = scored(
        part("answer", [failed, failed, 1.0]), part("form", [Score(0.0, reason="no tag"), 1.0, failed], role="gate")
    )
    assert [score.value for score in scores] == [0.0, None, None]
    assert scores[0].reason == "closed by form. answer: took over 5 s; form: no tag"
    assert scores[1].reason == "answer: took over 5 s" and scores[2].reason == "form: took over 5 s"


def test_where_no_term_applies_gates_and_factors_score_nothing():
    scores = scored(
        part("a", [None, None]), part("form", [0.0, 1.0], role="gate"), part("f", [0.5, 0.5], role="factor")
    )
    assert [score.value for score in scores] == [None, None]
    assert scores[0].reason == "no reward applies to this completion"


def test_factors_that_do_not_apply_change_nothing_and_failed_ones_unscore():
    (first, second) = scored(part("a", [2.0, 2.0]), part("f", [None, Score(None, reason="broke")], role="factor"))
    assert first.value == 2.0 and second.value is None and second.reason == "f: broke"


def test_a_gate_or_factor_with_weight_0_is_only_recorded():
    (score,) = scored(
        part("a", [2.0]), part("g", [0.0], role="gate", weight=0.0), part("f", [9.0], role="factor", weight=0.0)
    )
    assert score.value == 2.0 and score.parts == {"a": 2.0, "g": 0.0, "f": 9.0}


def test_normalised_terms_are_measured_against_their_own_group():
    groups = ["p", "p", "p", "q", "q"]
    scores = scored(part("a", [1.0, 2.0, 3.0, 5.0, 5.0], normalise="group", weight=2.0), groups=groups)
    step = 2 / (math.sqrt(2 / 3) + 1e-6)
    assert [score.value for score in scores] == pytest.approx([-step, 0, step, 0, 0], abs=1e-12)
    assert [score.parts["a"] for score in scores] == [1.0, 2.0, 3.0, 5.0, 5.0]


def test_what_does_not_apply_or_failed_leaves_the_statistics_of_its_group():
    values = [4.0, Score(None, reason="broke"), 2.0, None]
    scores = scored(part("a", values, normalise="group"), part("b", [0.0] * 4), groups=["p"] * 4)
    assert [score.value for score in scores] == [pytest.approx(1, abs=1e-5), None, pytest.approx(-1, abs=1e-5), 0.0]


@pytest.mark.parametrize("value", [0.1, 1e8 / 3, 1e300, 0.0])
def test_a_group_that_agrees_is_0_whatever_it_agrees_on(value):
    assert normalised([value, None, value, value]) == [0.0, None, 0.0, 0.0] and normalised([value]) == [0.0]


finite = st.floats(-1e6, 1e6)
maybe = st.none() | finite


@given(st.lists(maybe, min_size=1, max_size=12))
def test_normalised_values_have_mean_0_and_std_at_most_1(values):
    given_ = [value for value in normalised(values) if value is not None]
    assert [value is None for value in normalised(values)] == [value is None for value in values]
    if given_:
        assert statistics.mean(given_) == pytest.approx(0, abs=1e-6) and statistics.pstdev(given_) <= 1 + 1e-6


@given(st.lists(st.tuples(finite, finite, st.floats(0.125, 4)), min_size=1, max_size=6))
def test_the_total_is_gate_times_factors_times_the_weighted_sum_of_the_parts(numbers):
    terms = [part(f"t{n}", [value], weight=weight) for n, (value, weight, _) in enumerate(numbers)]
    factors = [part(f"f{n}", [factor], role="factor") for n, (*_, factor) in enumerate(numbers)]
    assume(any(one.weight for one in terms))
    total = math.prod(factor for *_, factor in numbers) * sum(value * weight for value, weight, _ in numbers)
    size = math.prod(factor for *_, factor in numbers) * sum(abs(value * weight) for value, weight, _ in numbers)
    for gate, expected in ((1.0, total), (0.0, 0.0)):
        (score,) = scored(*terms, *factors, part("gate", [gate], role="gate"))
        assert score.value == pytest.approx(expected, abs=1e-14 * size)


@given(st.lists(st.tuples(st.sampled_from("pqr"), maybe, maybe, maybe), min_size=1, max_size=12), st.randoms())
def test_neither_the_order_of_groups_nor_that_within_a_group_matters(rows, random):
    def totals(rows):
        groups, a, b, gate = zip(*rows, strict=True)
        parts = [part("a", a, normalise="group"), part("b", b, weight=0.5), part("gate", gate, role="gate")]
        return [score.value for score in scored(*parts, groups=groups)]

    order = random.sample(range(len(rows)), len(rows))
    assert totals([rows[n] for n in order]) == [totals(rows)[n] for n in order]


def test_the_formula_in_words():
    parts = [
        part("number", []),
        part("brief", [], weight=0.2),
        part("form", [], role="gate"),
        part("f", [], role="factor"),
    ]
    assert Combined(parts).name == "gate form * factor f * (1 number + 0.2 brief)"
    assert Combined(parts[:2]).name == "1 number + 0.2 brief" and Combined(parts[:1]).name == "number"


@given(st.permutations(range(4)))
def test_a_built_in_reward_sees_whole_groups_beside_others(order):
    lengths, groups = [10, 20, 30, 7], ["p", "p", "p", "q"]
    records = [make_record("", groups[n], tokens=lengths[n]) for n in order]
    reward = Combined([Part.of(Length(shape="group"), Path())])
    assert [score.value for score in reward.score(records)] == [[0.5, 0.0, -0.5, 0.0][n] for n in order]
