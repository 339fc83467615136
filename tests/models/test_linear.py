"""Products by way of oneDNN, padded, packed or not, are those of torch's own linear layers."""

from __future__ import annotations

import copy

import pytest
import torch
from architectures import build, policy_of
from torch import nn

from groupwise.models import linear
from groupwise.models.critic import Critic
from groupwise.models.linear import Linear, PackedWeights, packed_weight, use_fast_products

ROUNDING = {"rtol": 1e-6, "atol": 4e-6}
"""Of sums of 512 products that are of the order of 1/20."""


def pair(inputs: int = 512, outputs: int = 160, *, bias: bool) -> tuple[nn.Linear, Linear]:
    """A layer of torch's, and the same as `Linear`."""
    torch.manual_seed(0)
    plain = nn.Linear(inputs, outputs, bias=bias)
    fast = copy.deepcopy(plain)
    use_fast_products(fast)
    assert isinstance(fast, Linear)
    return plain, fast


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 3), (2, 3, 4), (1, 64), (65,)])
def test_values_are_those_of_torch(shape, bias):
    plain, fast = pair(bias=bias)
    x = torch.randn(*shape, 512)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), plain(x), **ROUNDING)


def test_training_takes_torch_s_products(monkeypatch):
    monkeypatch.setattr(linear, "product", None)
    plain, fast = pair(bias=True)
    x = torch.randn(3, 512, requires_grad=True)
    expected = torch.autograd.grad(plain(x).sum(), [x, *plain.parameters()])
    actual = torch.autograd.grad(fast(x).sum(), [x, *fast.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


def test_rows_come_in_few_sizes(monkeypatch):
    """oneDNN keeps a kernel for each shape."""
    _, fast = pair(bias=False)
    sizes = set()
    packed = torch.ops.mkldnn._linear_pointwise
    seen = lambda x, *rest: sizes.add(len(x)) or packed(x, *rest)  # noqa: E731
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", seen)
    with torch.no_grad():
        for rows in range(1, 80):
            assert fast(torch.randn(rows, 512)).shape == (rows, 160)
    assert sizes == {size for size in linear.SIZES if size <= linear.DECODED}


@pytest.mark.parametrize("where", [linear.SMALLEST - 1, linear.SMALLEST])
def test_small_matrices_and_many_rows_are_left_to_torch(where):
    weight = torch.empty(1, where)
    assert linear.applies(torch.empty(2, where), weight) is (where == linear.SMALLEST)
    assert not linear.applies(torch.empty(linear.SIZES[-1] + 1, where), weight)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 33, 64])
def test_packed_weights_give_the_same_whatever_rows_they_were_packed_for(rows):
    plain, fast = pair(bias=True)
    x = torch.randn(rows, 512)
    with torch.no_grad():
        for packed_for in (1, 8, 64):
            fast.packed = packed_weight(fast.weight, packed_for)
            torch.testing.assert_close(fast(x), plain(x), **ROUNDING)


def test_packed_weights_are_never_trained_through_and_given_back_at_the_end():
    plain, fast = pair(bias=False)
    weights = PackedWeights(fast)
    x = torch.randn(2, 512)
    with pytest.raises(KeyboardInterrupt), weights.holding():
        weights.pack(2)
        assert fast.packed is not None
        fast.weight.data.zero_()  # so that only a product with the packed weight isn't zero
        with torch.no_grad():
            torch.testing.assert_close(fast(x), plain(x), **ROUNDING)
        assert torch.equal(fast(x), torch.zeros(2, 160))
        raise KeyboardInterrupt
    assert fast.packed is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_precision_takes_torch_s_products(dtype, monkeypatch):
    monkeypatch.setattr(linear, "product", None)
    plain, fast = (layer.to(dtype) for layer in pair(bias=True))
    PackedWeights(fast).pack(3)
    x = torch.randn(3, 512, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(fast(x), plain(x))


def test_an_automatic_cast_takes_torch_s_products(monkeypatch):
    monkeypatch.setattr(linear, "product", None)
    plain, fast = pair(bias=True)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast(torch.ones(3, 512)).dtype == torch.bfloat16
        assert torch.equal(fast(torch.ones(3, 512)), plain(torch.ones(3, 512)))


def test_without_onednn_nothing_is_different(monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", False)
    monkeypatch.setattr(linear, "product", None)
    plain, fast = pair(bias=True)
    PackedWeights(fast).pack(3)
    with torch.no_grad():
        assert torch.equal(fast(torch.ones(3, 512)), plain(torch.ones(3, 512))) and fast.packed is None


@torch.no_grad()
def test_no_rows_give_no_rows():
    _, fast = pair(bias=True)
    assert fast(torch.empty(0, 512)).shape == (0, 160)


def test_a_model_keeps_its_names_and_a_copy_is_a_model_of_its_own(monkeypatch):
    monkeypatch.setattr(linear, "SMALLEST", 1)
    model = build("llama")
    names = list(model.state_dict())
    forward = policy_of(model).forward
    assert list(model.state_dict()) == names
    critic = Critic(copy.deepcopy(model.model), torch.float32)
    with forward.packed_weights.holding():
        forward.packed_weights.pack(4)
        layers = [module for module in model.modules() if isinstance(module, Linear)]
        assert len(layers) == 7 * model.config.num_hidden_layers + 1
        assert all(layer.packed is not None for layer in layers) and forward.head.packed is not None
        others = [module for module in critic.backbone.modules() if isinstance(module, Linear)]
        assert others and all(layer.packed is None for layer in others)
    assert all(layer.packed is None for layer in layers) and forward.head.packed is None
