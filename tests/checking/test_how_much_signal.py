"""How much signal groups give, measured and expected."""

from __future__ import annotations

from itertools import combinations

import pytest

from groupwise.checking.signal import measure, mixed_share, share_within
from groupwise.sources.contract import Gathered
from groupwise.types import Completion, Group, Prompt, Score, Segment


def group(name: str, verdicts: list[bool | None]) -> Group:
    completions = tuple(Completion((Segment((1, 2), None),), "length" if v is None else "stop") for v in verdicts)
    scores = tuple(Score(None, None, "hung") if v is None else Score(float(v), v) for v in verdicts)
    return Group(name, Prompt(name, (1,), name), completions, scores)


def test_the_share_at_smaller_sizes_is_that_of_all_choices_of_completions() -> None:
    verdicts: list[bool | None] = [True, False, False, True, False]
    for size in (2, 3, 4, 5):
        chosen = list(combinations(verdicts, size))
        share = sum(len(set(some)) == 2 for some in chosen) / len(chosen)
        assert share_within([group("a", verdicts)], size) == pytest.approx(share)
    assert share_within([group("a", verdicts)], 6) is None
    assert mixed_share(0.5, 2) == 0.5 and mixed_share(0.0, 8) == mixed_share(1.0, 8) == 0.0


def test_the_numbers_of_some_groups() -> None:
    groups = [group("a", [True, False, None, True]), group("b", [False, False, False, False])]
    signal = measure(Gathered(groups, {"rollout": 9.0, "reward": 2.0}), 4)
    assert signal.pass_rate == pytest.approx(2 / 7) and signal.with_signal == 0.5
    assert signal.not_scored == signal.truncated == 1 / 8 and signal.reasons == (("hung", 1),)
    assert signal.scoring_seconds == 0.25
    (at_four,) = [entry for entry in signal.at_size if entry[0] == 4]
    assert at_four == (4, pytest.approx(mixed_share(2 / 7, 4)), 0.0)  # only b has four verdicts
    assert list(signal.remarks()) == ["12.5% of completions could not be scored (most often: hung)"]


def test_what_cannot_be_learned_from_is_said() -> None:
    def said(verdicts: list[bool | None]) -> str:
        return " ".join(measure(Gathered([group("a", verdicts)], {"reward": 0.0}), 4).remarks())

    assert "hardly a group has anything right" in said([False] * 4)
    assert "hardly a group has anything wrong" in said([True] * 4)
    assert said([True, False, True, False]) == ""
