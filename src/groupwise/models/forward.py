"""A causal LM run on packed groups: hidden states through any transformers decoder, log-probs through one kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from groupwise.errors import ModelError
from groupwise.models.attention import NAME, Layout
from groupwise.models.hidden import SharedPrompt, group_hidden, hidden_states
from groupwise.models.linear import Linear, PackedWeights, use_fast_products
from groupwise.models.log_probs import Head, token_log_probs
from groupwise.models.packed import Packed
from groupwise.packing import predictors
from groupwise.types import Batch

PACKING_TOLERANCE = 1e-5
"""Largest KL divergence (nats), plain from packed, that rounding explains in float32. Single log-probs won't do: on the
arbitrary tokens of the check, real models turn rounding into differences of 1e-3 in the tail of the vocabulary."""

LEAK_TOLERANCE = 1e-3
"""Largest change of a sample's hidden states, relative to their norm, when only its neighbour's tokens change. Exact
zero but for mixtures of experts, whose rounding depends on how many tokens go where. Unlike a divergence of
predictions it shows a leak even in an untrained model, whose predictions hardly depend on anything."""


class Forward:
    """A transformers causal LM prepared for packed groups. From then on it runs only through this object."""

    def __init__(self, model: Any, compute_dtype: torch.dtype) -> None:
        model.set_attn_implementation(NAME)
        use_fast_products(model)
        self.model = model
        self.packed_weights = PackedWeights(model)
        self.compute_dtype = compute_dtype
        self.backbone = model.base_model

    @property
    def head(self) -> Head:
        """The output layer as it is now."""
        layer, config = self.model.get_output_embeddings(), self.model.config.to_dict()
        scale = config.get("logit_scale") or 1.0 / (config.get("logits_scaling") or 1.0)
        packed = layer.packed if isinstance(layer, Linear) else None
        return Head(layer.weight, layer.bias, scale, config.get("final_logit_softcapping"), packed)

    def hidden(self, token_ids: Tensor, positions: Tensor, layout: Layout) -> Tensor:
        """token_ids, positions [T] -> last hidden states [T, h]."""
        return hidden_states(self.backbone, token_ids, positions, layout, self.compute_dtype)

    def log_probs(self, batch: Batch, prompt: SharedPrompt | None = None) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies [T] of the tokens in the loss mask, at the batch's temperature; zero elsewhere.

        Logits are computed only where a token of the mask is predicted. `prompt`: for a part of a group.
        """
        hidden = group_hidden(self.backbone, batch, self.compute_dtype, prompt)
        where = batch.loss_mask.nonzero()[:, 0]
        rows = hidden.index_select(0, predictors(batch)[where])
        log_probs, entropy = token_log_probs(rows, self.head, batch.token_ids[where], batch.temperature)
        blank = log_probs.new_zeros(batch.token_ids.numel())
        return blank.index_put((where,), log_probs), blank.index_put((where,), entropy)


@torch.no_grad()
def check_packing(model: Any) -> None:
    """Raise `ModelError` unless this architecture gives the same log-probs packed as plain.

    Layers that mix tokens outside attention (convolutions, state spaces, attention sinks) would let packed samples see
    each other; such a model is refused here, before anything is trained on it.
    """
    prompt, answers = [5, 3, 7, 4, 6], ([8, 9, 3], [6, 4])
    vocabulary = model.get_output_embeddings().weight.shape[0]
    ids = [token % vocabulary for token in (*prompt, *answers[0], *answers[1])]
    device = next(model.parameters()).device
    rows = [torch.tensor(ids[:8], device=device), torch.tensor(ids[:5] + ids[8:], device=device)]
    use_fast_products(model)  # for both, else their rounding would be compared too
    with _restored(model):
        model.set_attn_implementation("eager")
        plain = [model(input_ids=row[None], use_cache=False).logits[0].float().log_softmax(-1) for row in rows]
    forward = Forward(model, torch.float32)
    layout = Packed([(0, 5)], [[(5, 8), (8, 10)]], device)
    positions = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 5, 6], device=device)
    other = [*ids[:5], *((token + 1) % vocabulary for token in ids[5:8]), *ids[8:]]
    try:
        hidden, beside_other = (
            forward.hidden(torch.tensor(tokens, device=device), positions, layout) for tokens in (ids, other)
        )
    except (TypeError, AssertionError, AttributeError) as error:
        raise _cannot_pack(model, f"its layers don't take packed groups ({error})") from error
    packed = forward.head.logits(hidden).log_softmax(-1)
    expected = torch.cat([plain[0], plain[1][5:]])
    divergence = float((expected.exp() * (expected - packed)).sum(-1).max())
    if not divergence <= PACKING_TOLERANCE:
        raise _cannot_pack(model, f"packed and plain predictions differ by a KL of {divergence:.2g}")
    leak = float((beside_other - hidden)[8:].norm() / hidden[8:].norm())
    if not leak <= LEAK_TOLERANCE:
        raise _cannot_pack(model, f"a sample's hidden states change by {leak:.2g} with those packed beside it")


def _cannot_pack(model: Any, why: str) -> ModelError:
    kind = type(model).__name__
    return ModelError(
        f"model of type {kind} can't be trained on packed groups: {why}", fix="use a pure attention decoder"
    )


@contextlib.contextmanager
def _restored(model: Any) -> Iterator[None]:
    """Run with the model's attention implementation put back afterwards."""
    before = model.config._attn_implementation
    try:
        yield
    finally:
        model.set_attn_implementation(before)
