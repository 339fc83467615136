"""What a policy loss is computed from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from groupwise.core.masks import policy_inputs, where_mask
from groupwise.core.metrics import token_maximum, token_means
from groupwise.core.rows import pack_rows
from groupwise.errors import NonFiniteLogprobError
from groupwise.types import Maximum, Mean

NAN, INF = float("nan"), float("inf")


def batch(**fields):
    packed = pack_rows([[1, 0, 1]], advantages=[[2.0, NAN, 3.0]])
    return replace(packed, **{name: torch.tensor(values) for name, values in fields.items()})


def test_masked_values_are_zero_before_anything_is_computed():
    log_probs = torch.tensor([-1.0, NAN, -2.0], requires_grad=True)
    inputs = policy_inputs(batch(old_log_probs=[-1.0, INF, -2.0], ref_log_probs=[-1.0, -INF, -2.0]), log_probs)
    assert inputs.log_probs.tolist() == [-1, 0, -2] and inputs.advantages.tolist() == [2, 0, 3]
    assert inputs.old_log_probs.tolist() == [-1, 0, -2] and inputs.ref_log_probs.tolist() == [-1, 0, -2]


def test_only_the_current_log_probs_have_a_gradient():
    log_probs = torch.tensor([-1.0, -1.0, -2.0], requires_grad=True)
    leaves = {
        name: torch.full((3,), -1.0, requires_grad=True) for name in ("old_log_probs", "ref_log_probs", "advantages")
    }
    for source in (replace(batch(), **leaves), batch()):
        inputs = policy_inputs(source, log_probs)
        assert inputs.log_probs.requires_grad
        others = (inputs.old_log_probs, inputs.ref_log_probs, inputs.advantages)
        assert not any(values.requires_grad for values in others if values is not None)


@pytest.mark.parametrize("field", ["old_log_probs", "ref_log_probs", "advantages"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_not_finite_is_named(field, value):
    with pytest.raises(NonFiniteLogprobError, match=f"{field} is .* at token 2 of completion 0, one of 1"):
        policy_inputs(batch(**{field: [-1.0, -1.0, value]}), torch.full((3,), -1.0))


def test_dropping_leaves_the_token_out_everywhere():
    source = batch(old_log_probs=[-1.0, -1.0, -INF])
    inputs = policy_inputs(source, torch.full((3,), -1.0), "drop")
    assert inputs.dropped == 1 and inputs.batch.loss_mask.tolist() == [True, False, False]
    assert inputs.old_log_probs.tolist() == [-1, 0, 0]


def test_half_precision_is_raised_to_float32():
    assert where_mask(torch.full((3,), -1.0, dtype=torch.bfloat16), batch()).dtype == torch.float32
    assert where_mask(torch.full((3,), -1.0, dtype=torch.float64), batch()).dtype == torch.float64


def test_metrics_count_what_counts():
    means = token_means(batch(), flag=torch.tensor([True, True, False]), value=torch.tensor([1.0, NAN, 4.0]))
    assert means == {"flag": Mean(1, 2), "value": Mean(5, 2)}
    assert token_maximum(batch(), torch.tensor([1.0, 9.0, 3.0])) == Maximum(3)
    assert token_maximum(pack_rows(torch.zeros(0, 1)), torch.zeros(0)) == Maximum(0)
