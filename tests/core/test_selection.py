"""Which completions are trained on."""

from __future__ import annotations

import pytest

from groupwise.algorithms import DPO, RFT
from groupwise.core.selection import preference_pairs
from groupwise.errors import DataError
from groupwise.types import Completion, Group, Prompt, Score, Segment


def completion(*ids, finish="stop"):
    return Completion((Segment(ids, None),), finish)


def group(*items):
    completions, scores = zip(*items, strict=True) if items else ((), ())
    return Group("a", Prompt("a", (1,), "?"), completions, scores)


RIGHT, WRONG = Score(1.0, True), Score(0.0, False)


def test_rft_takes_right_answers_once_and_not_too_many():
    sampled = group(
        (completion(5, 1), RIGHT),
        (completion(6, 1), WRONG),
        (completion(5, 2), RIGHT),  # the same but for its stop token
        (completion(5, 1, finish="length"), RIGHT),
        (completion(7, 1), RIGHT),
        (completion(8, 1), Score(None, True)),
        (completion(9, 1), RIGHT),
    )

    def ids(**settings):
        return [one.token_ids for one in RFT(**settings).select(sampled)[0].completions]

    assert ids() == [(5, 1), (7, 1), (9, 1)]
    assert ids(max_per_prompt=2) == [(5, 1), (7, 1)]
    assert ids(deduplicate=False) == [(5, 1), (5, 2), (7, 1), (9, 1)]
    assert ids(accept_truncated=True, deduplicate=False, max_per_prompt=9)[2] == (5, 1)
    assert RFT(denominator="all").select(sampled) == [sampled]
    assert RFT().keep(group((completion(6, 1), WRONG))) == "no completion is right"
    assert RFT().keep(sampled) is None


def test_pairs_are_the_best_right_against_the_worst_wrong():
    sampled = group(
        (completion(1, 0), Score(0.8, True)),
        (completion(2, 0), Score(0.1, False)),
        (completion(3, 0), Score(1.0, True)),
        (completion(4, 0), Score(-0.5, False)),
        (completion(5, 0), Score(None, True)),
        (completion(6, 0), Score(2.0, None)),
    )
    (pair,) = preference_pairs(sampled)
    assert [one.token_ids for one in pair.completions] == [(3, 0), (4, 0)] and pair.id == "a/0"
    assert pair.scores == (None, None)
    pairs = preference_pairs(sampled, limit=5)
    assert [[one.token_ids for one in each.completions] for each in pairs] == [[(3, 0), (4, 0)], [(1, 0), (2, 0)]]
    assert preference_pairs(group((completion(1, 0), RIGHT))) == []
    assert preference_pairs(group((completion(1, 0), Score(0.0, True)), (completion(2, 0), Score(0.0, False)))) == []


def test_pairs_that_teach_nothing_are_dropped_and_broken_ones_refused():
    assert DPO().keep(group((completion(1), None), (completion(2), None))) is None
    assert DPO().keep(group((completion(1), None), (completion(1), None))) == "both completions are the same"
    with pytest.raises(DataError, match="empty"):
        DPO().keep(group((completion(), None), (completion(1), None)))
    with pytest.raises(DataError, match="1 completions"):
        DPO().keep(group((completion(1), None)))
