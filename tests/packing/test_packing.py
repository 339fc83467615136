"""Groups to a batch and back, and sub-batches: what goes in comes out, at the right place."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from groupwise.packing import TOKEN_FIELDS, micro_batches, pack, predictors, take, to, token_index, unpack
from groupwise.types import Completion, Group, Prompt, Score, Segment


def group(name, prompt, *completions, scores=None):
    """A group; a completion is a list of token ids, or a `Completion`."""
    made = [c if isinstance(c, Completion) else Completion((Segment(tuple(c), None),), "stop") for c in completions]
    return Group(name, Prompt(name, tuple(prompt), ""), tuple(made), tuple(scores or [None] * len(made)))


tokens = st.integers(0, 50)
segments = st.builds(
    lambda ids, drawn, trainable: Segment(
        tuple(ids), tuple(-float(token) / 8 for token in ids) if drawn else None, trainable
    ),
    st.lists(tokens, max_size=4),
    st.booleans(),
    st.booleans(),
)
completions = st.builds(
    Completion, st.lists(segments, min_size=1, max_size=3).map(tuple), st.sampled_from(["stop", "length", "aborted"])
)
scores = st.none() | st.builds(
    Score, st.none() | st.floats(-2, 2), st.sampled_from([True, False, None]), step_rewards=st.none() | st.just((0.5,))
)


@st.composite
def group_lists(draw):
    groups = []
    for number in range(draw(st.integers(1, 4))):
        made = draw(st.lists(st.tuples(completions, scores), min_size=1, max_size=4))
        prompt = tuple(draw(st.lists(tokens, min_size=1, max_size=5)))
        name = f"g{number}"
        groups.append(Group(name, Prompt(name, prompt, ""), tuple(c for c, _ in made), tuple(s for _, s in made)))
    return groups


def flat(groups):
    """(group number, completion, score) of every completion, in order."""
    return [
        (number, completion, score)
        for number, group in enumerate(groups)
        for completion, score in zip(group.completions, group.scores, strict=True)
    ]


def filled(batch):
    """The batch with every per-token field present, each value telling where it stands and in which field."""
    length = batch.token_ids.numel()
    late = [name for name in TOKEN_FIELDS if getattr(batch, name) is None]
    return replace(batch, **{name: torch.arange(length) + 1000.0 * n for n, name in enumerate(late, start=1)})


@given(group_lists())
def test_unpack_is_the_inverse_of_pack(groups):
    expected = [(group.prompt.token_ids, [c.token_ids for c in group.completions]) for group in groups]
    assert unpack(pack(groups, temperature=1.0)) == expected


@given(group_lists())
def test_every_token_carries_what_its_segment_says(groups):
    batch = pack(groups, temperature=0.7)
    assert batch.temperature == 0.7 and batch.group_ids == tuple(group.id for group in groups)
    drawn = any(s.sampler_log_probs is not None for _, c, _ in flat(groups) for s in c.segments)
    assert (batch.sampler_log_probs is not None) == drawn
    covered = torch.zeros(batch.token_ids.numel(), dtype=torch.int64)
    for group, (start, end) in zip(groups, batch.prompt_spans, strict=True):
        covered[start:end] += 1
        assert batch.positions[start:end].tolist() == list(range(len(group.prompt.token_ids)))
        assert not batch.loss_mask[start:end].any() and (batch.completion_index[start:end] == -1).all()
    for index, (number, completion, score) in enumerate(flat(groups)):
        start, end = batch.completion_spans[index]
        covered[start:end] += 1
        first = len(groups[number].prompt.token_ids)
        assert batch.positions[start:end].tolist() == list(range(first, first + end - start))
        assert (batch.completion_index[start:end] == index).all() and batch.group_index[index] == number
        counts = score is None or score.value is not None
        mask = [segment.trainable and counts for segment in completion.segments for _ in segment.token_ids]
        assert batch.loss_mask[start:end].tolist() == mask
        if drawn:
            log_probs = [p for s in completion.segments for p in s.sampler_log_probs or [0.0] * len(s.token_ids)]
            assert batch.sampler_log_probs[start:end].tolist() == log_probs
        assert batch.finish_reasons[index] == completion.finish_reason
        assert batch.correct[index] == (score.correct if score else None)
        assert batch.step_rewards[index] == (score.step_rewards if score else None)
        reward = batch.rewards[index].item()
        assert reward == score.value if score and score.value is not None else reward != reward
    assert (covered == 1).all()


@given(group_lists(), st.data())
def test_a_sub_batch_is_the_pack_of_what_was_taken(groups, data):
    batch = filled(pack(groups, temperature=1.3))
    everything = flat(groups)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(everything))), min_size=1)))
    kept = []
    for number, group in enumerate(groups):
        own = [index for index in chosen if everything[index][0] == number]
        if own:
            picked = tuple(everything[index][1] for index in own), tuple(everything[index][2] for index in own)
            kept.append(replace(group, completions=picked[0], scores=picked[1]))
    part, expected = take(batch, chosen), pack(kept, temperature=1.3)
    same = ("prompt_spans", "completion_spans", "group_ids", "correct", "finish_reasons", "step_rewards", "step_ends")
    assert all(getattr(part, name) == getattr(expected, name) for name in same) and part.temperature == 1.3
    for name in ("token_ids", "positions", "loss_mask", "completion_index", "group_index"):
        assert torch.equal(getattr(part, name), getattr(expected, name)), name
    assert torch.equal(part.rewards.nan_to_num(99), expected.rewards.nan_to_num(99))
    where = token_index(batch, chosen)
    for name in TOKEN_FIELDS:
        assert torch.equal(getattr(part, name), getattr(batch, name)[where]), name


@given(group_lists())
def test_taking_everything_changes_nothing(groups):
    batch = filled(pack(groups, temperature=1.0))
    whole = take(batch, range(len(batch.completion_spans)))
    for name in (*TOKEN_FIELDS, "completion_index", "group_index"):
        assert torch.equal(getattr(whole, name), getattr(batch, name)), name
    assert (whole.prompt_spans, whole.completion_spans) == (batch.prompt_spans, batch.completion_spans)


@pytest.mark.parametrize("wrong", [[1, 0], [0, 0]])
def test_completions_are_taken_in_order_and_once(wrong):
    with pytest.raises(AssertionError, match="increasing"):
        take(pack([group("a", [1], [2], [3])], temperature=1.0), wrong)


def test_a_token_is_predicted_by_the_one_before_it_and_the_first_by_the_prompts_last():
    batch = pack([group("a", [5, 6, 7], [1, 2], [], [3]), group("b", [8], [4], [9, 9])], temperature=1.0)
    #                [5   6   7 | 1  2 | 3 || 8 | 4 | 9  9]
    assert predictors(batch).tolist() == [-1, -1, -1, 2, 3, 2, -1, 6, 6, 8]


@given(group_lists())
def test_predictors_stand_one_position_earlier_in_the_same_completion_or_its_prompt(groups):
    batch = pack(groups, temperature=1.0)
    rows = predictors(batch)
    for token, row in enumerate(rows.tolist()):
        completion = int(batch.completion_index[token])
        assert (row == -1) == (completion == -1)
        if completion >= 0:
            assert batch.positions[row] == batch.positions[token] - 1
            start, end = batch.prompt_spans[int(batch.group_index[completion])]
            assert batch.completion_index[row] == completion or start <= row < end


def parts_of(lengths, limit):
    """Micro-batches of groups given as (prompt length, completion lengths)."""
    groups = [group(f"g{n}", [1] * prompt, *[[2] * own for own in owns]) for n, (prompt, owns) in enumerate(lengths)]
    batch = pack(groups, temperature=1.0)
    return batch, list(micro_batches(batch, range(len(batch.completion_spans)), limit))


@pytest.mark.parametrize(
    "lengths, limit, expected",
    [
        ([(3, [2, 2]), (3, [2, 2])], 14, [[0, 1, 2, 3]]),
        ([(3, [2, 2]), (3, [2, 2])], 13, [[0, 1], [2, 3]]),  # whole groups, though half of the second would fit
        ([(3, [2, 2, 2])], 7, [[0, 1], [2]]),  # a group over the limit is split between completions
        ([(3, [2]), (3, [2, 2, 2])], 7, [[0], [1, 2], [3]]),
        ([(3, [9]), (3, [1])], 5, [[0], [1]]),  # one completion over the limit is never split
        ([(3, [0, 0]), (3, [0])], 6, [[0, 1, 2]]),
    ],
)
def test_micro_batches_keep_groups_whole_where_they_fit(lengths, limit, expected):
    assert parts_of(lengths, limit)[1] == expected


@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 6), min_size=1, max_size=5)), min_size=1, max_size=5),
    st.integers(1, 40),
)
def test_micro_batches_cover_every_completion_once_and_keep_to_the_limit(lengths, limit):
    batch, parts = parts_of(lengths, limit)
    assert [completion for part in parts for completion in part] == list(range(len(batch.completion_spans)))
    split = {}
    for number, part in enumerate(parts):
        size = take(batch, part).token_ids.numel()
        assert size <= limit or len(part) == 1
        for completion in part:
            split.setdefault(int(batch.group_index[completion]), set()).add(number)
    for number, (prompt, owns) in enumerate(lengths):
        assert len(split[number]) == 1 or prompt + sum(owns) > limit


def test_micro_batches_of_some_completions_are_measured_by_those_alone():
    batch, _ = parts_of([(3, [50, 2, 2]), (3, [2])], 99)
    assert list(micro_batches(batch, [1, 2, 3], 12)) == [[1, 2, 3]]
    assert list(micro_batches(batch, [], 12)) == []


def test_a_completion_that_could_not_be_scored_is_masked_unlike_one_that_nothing_scores():
    scores = [None, Score(None, reason="timed out"), Score(0.0), Score(1.0)]
    batch = pack([group("a", [5], [1, 2], [1, 2], [1, 2], [1, 2], scores=scores)], temperature=1.0)
    assert batch.loss_mask.tolist() == [False, True, True, False, False, True, True, True, True]
    assert batch.rewards.isnan().tolist() == [True, True, False, False]


def test_R005_the_mask_comes_from_spans_so_that_the_end_token_counts_whatever_its_id():
    """Id 2 pads and ends; it also stands inside the second completion, of two turns."""
    batch = pack([group("a", [2, 5], [5, 6, 2], [5, 2, 7, 2])], temperature=1.0)
    assert batch.loss_mask.tolist() == [False] * 2 + [True] * 7
    assert [end - start for start, end in batch.completion_spans] == [3, 4]


def test_R105_what_another_policy_began_stays_with_its_mask_log_probs_and_version():
    old = Segment((4, 5, 6, 7), (-1.0, -2.0, -3.0, -4.0), trainable=False, version=1)
    new = Segment((8, 9, 2), (-0.5, -0.25, -0.125), version=2)
    resumed = Completion((old, new), "stop")
    batch = pack([group("a", [3], resumed)], temperature=1.0)
    assert batch.loss_mask[1:].tolist() == [False] * 4 + [True] * 3
    assert batch.token_ids[1:].tolist() == [4, 5, 6, 7, 8, 9, 2] == list(resumed.token_ids)
    assert batch.sampler_log_probs.tolist() == [0.0, -1.0, -2.0, -3.0, -4.0, -0.5, -0.25, -0.125]
    assert [segment.version for segment in resumed.segments for _ in segment.token_ids] == [1] * 4 + [2] * 3


def test_R036_groups_of_the_same_prompt_stay_apart_and_samples_stay_with_their_group():
    one, two = (group(name, [5, 6], [1], [2], scores=[Score(1.0), Score(0.0)]) for name in ("a#0", "a#1"))
    batch = pack([one, two], temperature=1.0)
    assert batch.group_ids == ("a#0", "a#1") and batch.group_index.tolist() == [0, 0, 1, 1]
    part = take(batch, [1, 2])
    assert part.group_ids == ("a#0", "a#1") and part.group_index.tolist() == [0, 1]
    assert part.rewards.tolist() == [0.0, 1.0] and part.prompt_spans == ((0, 2), (3, 5))


def test_moving_a_batch_moves_every_tensor():
    batch = to(filled(pack([group("a", [1, 2], [3])], temperature=1.0)), torch.device("meta"))
    tensors = [value for name in batch.__slots__ if isinstance(value := getattr(batch, name), torch.Tensor)]
    assert len(tensors) == len(TOKEN_FIELDS) + 3 and all(tensor.is_meta for tensor in tensors)
