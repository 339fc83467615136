"""Completions of very different lengths, which attention pads in lanes of about the same length."""

from __future__ import annotations

import pytest
import torch
from architectures import (
    ARCHITECTURES,
    build,
    gradients,
    plain_log_probs,
    policy_of,
    random_groups,
    relative_difference,
)

from groupwise.models.packed import LANE, SHORT, Packed
from groupwise.packing import pack

LENGTHS = ((1, 60, 3, 44, 61), (2, 30, 59), (27,))


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_log_probs_and_gradient_are_those_of_plain_sequences(architecture):
    model = build(architecture)
    groups = random_groups(prompts=(6, 9, 6), completions=LENGTHS)
    push = torch.randn(sum(map(sum, LENGTHS)), generator=torch.Generator().manual_seed(1))
    expected = plain_log_probs(model, groups, 1.0)
    plain = gradients(model, expected @ push)
    batch = pack(groups, temperature=1.0)
    log_probs = policy_of(model).forward.log_probs(batch)[0][batch.loss_mask]
    torch.testing.assert_close(log_probs, expected.detach(), rtol=0, atol=1e-4)
    assert relative_difference(gradients(model, log_probs @ push), plain) < 1e-5


def test_each_token_is_in_one_lane_and_padding_is_bounded():
    layout = Packed.of(pack(random_groups(prompts=(6, 9, 6), completions=LENGTHS), temperature=1.0))
    lanes = [lane for bucket in layout.buckets for lane in bucket.completions.lanes]
    assert [(lane.rows, lane.longest) for lane in lanes] == [(3, 61), (1, 27), (2, 3), (2, 59), (1, 2)]
    for lane in lanes:
        lengths = torch.bincount(lane.real // lane.longest, minlength=lane.rows)
        assert (lengths + SHORT >= LANE * lane.longest).all()
    tokens = torch.cat([bucket.order for bucket in layout.buckets])
    assert tokens.sort().values.tolist() == list(range(sum(map(sum, LENGTHS)) + 21))
