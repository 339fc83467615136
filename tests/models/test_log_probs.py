"""The kernel of per-token log-probs against the naive way, in value, gradient and memory."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from groupwise.models import log_probs as kernel
from groupwise.models.log_probs import Head, token_log_probs

HEADS = {
    "plain": {"bias": False, "scale": 1.0, "softcap": None},
    "bias": {"bias": True, "scale": 1.0, "softcap": None},
    "scale": {"bias": False, "scale": 0.25, "softcap": None},
    "softcap": {"bias": False, "scale": 1.0, "softcap": 3.0},
    "everything": {"bias": True, "scale": 1.7, "softcap": 2.0},
}


def inputs(rows, vocabulary, size, kind, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    hidden, weight, bias = (
        torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()
        for shape in ((rows, size), (vocabulary, size), (vocabulary,))
    )
    head = Head(weight, bias if kind["bias"] else None, kind["scale"], kind["softcap"])
    return hidden, head, torch.randint(0, vocabulary, (rows,), generator=generator)


def naive(hidden, head, targets, temperature):
    """Log-probs [n] and entropies [n] by way of all logits at once."""
    logits = hidden @ head.weight.t() + (0 if head.bias is None else head.bias)
    logits = logits * head.scale
    if head.softcap is not None:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    log_probs = (logits / temperature).log_softmax(-1)
    return log_probs.gather(1, targets[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)


@pytest.fixture
def small_chunks(monkeypatch):
    """So that a handful of rows already make several chunks, the last of them short."""
    monkeypatch.setattr(kernel, "CHUNK_ROWS", 3)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("kind", HEADS.values(), ids=HEADS)
def test_values_and_gradients_are_those_of_the_naive_way(small_chunks, kind, temperature):
    hidden, head, targets = inputs(11, 13, 4, kind)
    leaves = [leaf for leaf in (hidden, head.weight, head.bias) if leaf is not None]
    push = torch.randn(11, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    expected, expected_entropy = naive(hidden, head, targets, temperature)
    expected_gradients = torch.autograd.grad(expected @ push, leaves)
    actual, entropy = token_log_probs(hidden, head, targets, temperature)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(entropy, expected_entropy.detach(), rtol=0, atol=1e-12)
    for gradient, wanted in zip(torch.autograd.grad(actual @ push, leaves), expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-12)
    assert not entropy.requires_grad


@pytest.mark.parametrize("kind", HEADS.values(), ids=HEADS)
def test_gradients_are_those_of_finite_differences(small_chunks, kind):
    hidden, head, targets = inputs(5, 7, 3, kind)

    def of(hidden, weight, bias):
        return token_log_probs(hidden, Head(weight, bias, head.scale, head.softcap), targets, 0.7)[0]

    torch.autograd.gradcheck(of, (hidden, head.weight, head.bias))


def test_only_what_is_trained_gets_a_gradient():
    hidden, head, targets = inputs(5, 7, 3, HEADS["everything"])
    frozen = Head(head.weight.detach(), head.bias.detach(), head.scale, head.softcap)
    token_log_probs(hidden, frozen, targets, 1.0)[0].sum().backward()
    assert hidden.grad is not None and frozen.weight.grad is None and frozen.bias.grad is None
    token_log_probs(hidden.detach(), head, targets, 1.0)[0].sum().backward()
    assert head.weight.grad is not None and head.bias.grad is not None


def test_logits_far_from_zero_overflow_nothing():
    hidden = torch.tensor([[300.0, -300.0]])
    head = Head(torch.tensor([[10.0, 0.0], [0.0, 10.0], [0.0, 0.0]]), None, 1.0, None)
    log_probs, entropy = token_log_probs(hidden.expand(3, 2), head, torch.tensor([0, 1, 2]), 0.5)
    assert log_probs.tolist() == [0.0, -12000.0, -6000.0] and entropy.tolist() == [0.0, 0.0, 0.0]


def test_no_tokens_are_no_rows():
    hidden, head, targets = inputs(0, 7, 3, HEADS["plain"])
    log_probs, entropy = token_log_probs(hidden, head, targets, 1.0)
    log_probs.sum().backward()
    assert log_probs.shape == entropy.shape == (0,) and not head.weight.grad.any()


def test_half_precision_weights_give_log_probs_in_float32():
    hidden, head, targets = inputs(6, 9, 4, HEADS["bias"], dtype=torch.bfloat16)
    log_probs, entropy = token_log_probs(hidden, head, targets, 1.0)
    assert log_probs.dtype == entropy.dtype == torch.float32
    log_probs.sum().backward()
    assert hidden.grad.dtype == head.weight.grad.dtype == head.bias.grad.dtype == torch.bfloat16
    wide = Head(head.weight.float(), head.bias.float(), 1.0, None)
    expected, _ = naive(hidden.float(), wide, targets, 1.0)
    torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-5)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that operations make while it is active and that are still held."""

    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        leaves = tree_leaves((args, kwargs))
        given = {leaf.untyped_storage()._cdata for leaf in leaves if isinstance(leaf, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if storage._cdata not in self.known and storage._cdata not in given:
                    self._hold(storage)
        return result

    def _hold(self, storage):
        place, size = storage._cdata, storage.nbytes()
        self.known.add(place)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, place, size)

    def _release(self, place, size):
        self.known.discard(place)
        self.live -= size


@pytest.mark.parametrize("rows, softcap", [(4096, None), (700, 30.0)])
def test_R007_the_peak_is_two_chunks_of_logits_however_many_tokens(rows, softcap):
    vocabulary, size = 50_000, 64
    kind = {"bias": False, "scale": 0.2, "softcap": softcap}
    hidden, head, targets = inputs(rows, vocabulary, size, kind, torch.float32)
    with LiveBytes() as forward:
        log_probs, _ = token_log_probs(hidden, head, targets, 1.3)
    with LiveBytes() as backward:
        log_probs.sum().backward()
    two_chunks = 2 * 256 * vocabulary * 4
    assert forward.peak <= two_chunks + 1e6
    assert backward.peak <= two_chunks + 1e6 + head.weight.nbytes + hidden.nbytes
    some = slice(rows - 40, rows)
    alone = hidden.detach()[some].requires_grad_()
    expected, _ = naive(alone, head, targets[some], 1.3)
    expected.sum().backward()
    torch.testing.assert_close(log_probs[some], expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(hidden.grad[some], alone.grad, rtol=0, atol=1e-5)
