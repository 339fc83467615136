"""Bytes of activations: what autograd keeps of packed groups, logits, and what passes without a gradient take.

How much autograd keeps per token was read off what it saves on packed groups, and a test compares the two. With fused
kernels it is the usual estimate for systems on GPUs, per token and layer

    8 h + 2 (H + O) + 4 K + 8 F + 4 heads

with h the hidden size and H, O, K and F the widths of queries, of attention's outputs, of keys and of the MLP, which
frameworks miss by up to a fifth either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groupwise.planning.shape import Shape

FULL = 4
"""Bytes of a float32."""

CHUNK_ROWS = 256
"""Rows of logits that the log-prob kernel holds at a time."""


@dataclass(frozen=True)
class Precision:
    """What activations are kept in, and by what kernels."""

    residual: int
    """Bytes of a number between layers."""
    compute: int
    """Bytes of a number inside them."""
    fused: bool = False
    """Norms that keep only their input, and attention whose output isn't copied, as in hand-written kernels."""
    attention: Literal["flash", "scores", "recomputed"] = "flash"
    """What attention keeps beside its inputs: one number per query and head; every score; or nothing, where scores are
    computed again (selective recomputation, Korthikanti et al., arXiv:2205.05198)."""
    dropout: bool = False
    """Dropout after attention and MLP, and on scores: a byte each."""


FLOAT32 = Precision(4, 4)
BFLOAT16 = Precision(4, 2)
"""Autocast: the residual stream stays in float32, and matrices take rounded copies of what goes in."""
FUSED_BFLOAT16 = Precision(2, 2, fused=True)
"""bfloat16 throughout with fused kernels: the usual estimate for systems on GPUs, not ours."""


@dataclass(frozen=True)
class Packing:
    """The sizes of a packed micro-batch, whose completions are padded inside attention alone."""

    tokens: int
    """On the packed axis: prompts once per group, and completions."""
    scored: int
    """Tokens of completions: rows that get logits."""
    queries: int
    """In attention: prompts, and every row padded to the longest."""
    keys: int
    """In attention: prompts, and for every row its prompt again with itself."""
    scores: int
    """Pairs of them: P^2 per group and R (P + R) per row."""
    mask: int
    """Entries of the masks that autograd keeps."""

    @classmethod
    def equal(cls, prompt: int, completion: int, samples: int, groups: int = 1, window: int | None = None) -> Packing:
        """Groups of `samples` completions of one length, behind prompts of one length."""
        return cls.padded(prompt, completion, samples, groups, groups * samples * completion, window)

    @classmethod
    def padded(
        cls, prompt: int, longest: int, samples: int, groups: int, scored: int, window: int | None = None
    ) -> Packing:
        """The same where completions have `scored` tokens in all, and the longest one has `longest`."""
        rows = groups * samples
        narrow = window is not None and prompt > window
        return cls(
            tokens=groups * prompt + scored,
            scored=scored,
            queries=groups * prompt + rows * longest,
            keys=groups * prompt + rows * (prompt + longest),
            scores=groups * prompt**2 + rows * longest * (prompt + longest),
            mask=longest * (prompt + longest) + (prompt**2 if narrow else 0),
        )

    @classmethod
    def sequence(cls, tokens: int) -> Packing:
        """One sequence without a shared prompt, attended by a causal kernel that keeps no mask."""
        return cls(tokens, tokens, tokens, tokens, tokens**2, 0)

    @classmethod
    def full(
        cls,
        limit: int,
        prompt: int,
        completion: int,
        samples: int,
        groups: int,
        *,
        whole: bool = False,
        window: int | None = None,
    ) -> Packing:
        """The largest micro-batch of a step that has at most `groups` groups of at most this size.

        It holds `limit` tokens, or all of the step's where they are fewer; at least one completion with its prompt, or
        with `whole` one group. One completion is as long as can be; the others share what is left of the limit, and are
        padded to it.
        """
        group = prompt + samples * completion
        limit = min(max(limit, group if whole else prompt + completion), groups * group)
        if limit <= group:
            rows = min(samples, -(-(limit - prompt) // completion))
            return cls.padded(prompt, completion, rows, 1, limit - prompt, window)
        count = min(groups, -(-limit // group))
        return cls.padded(prompt, completion, samples, count, limit - count * prompt, window)


def layer_activations(shape: Shape, packing: Packing, precision: Precision) -> int:
    """Bytes that autograd keeps of one layer without checkpointing.

        norms        norms T h (2 residual + 4)                            input, normalised input, one number
        inputs       T h times the matrices that share them, once in float32
        heads        T (H + K)(compute + residual)                         where queries and keys are normalised
        attention    compute (queries (H + O) + 2 keys K + mask) + 4 queries heads
        output       compute T O
        MLP          compute T F (gate, activation, up, product)

    T tokens, h hidden, H and O the widths of queries and of attention's outputs, K of keys and of values, F of the MLP.
    """
    tokens, hidden, wide, narrow = packing.tokens, shape.hidden, shape.queries, shape.keys
    residual, compute, fused = precision.residual, precision.compute, precision.fused
    kept = 2 if shape.root_mean_square and not fused else 1
    numbers = 0 if fused else 1 if shape.root_mean_square else 2
    norms = shape.norms * tokens * (kept * hidden * residual + numbers * FULL)
    cast = compute != residual
    copies = 2 if shape.fused_projections or fused or not cast else 5 if shape.gated else 4
    if shape.experts > 1:
        copies += 2 * shape.experts_per_token  # what each expert gets, and what it gives before it is weighted
    inputs = copies * tokens * hidden * compute
    head_norms = 0
    if shape.head_norms:
        head_norms = tokens * ((wide + narrow) * (compute + residual) + (shape.heads + shape.kv_heads) * FULL)
    output = 0 if fused else compute * tokens * shape.values
    mlp = compute * tokens * shape.active * (2 + 2 * shape.gated + 3 * shape.stepwise_activation)
    dropped = 2 * tokens * hidden if precision.dropout else 0
    return norms + inputs + head_norms + _attention(shape, packing, precision) + output + mlp + dropped


def _attention(shape: Shape, packing: Packing, precision: Precision) -> int:
    compute, wide = precision.compute, shape.queries
    if shape.softcap:
        scores = 2 * shape.heads * packing.scores
        return compute * (packing.queries * wide + 2 * packing.keys * wide + scores) + packing.mask
    kept = packing.queries * (wide + shape.values) + 2 * packing.keys * shape.keys + packing.mask
    attention = compute * kept
    if precision.attention == "flash":
        return attention + FULL * packing.queries * shape.heads
    if precision.attention == "recomputed":
        return attention
    per_score = compute + (compute + 1 if precision.dropout else 0)
    return attention + per_score * shape.heads * packing.scores


def layer_inputs(shape: Shape, packing: Packing, precision: Precision) -> int:
    """Bytes of what goes into one layer, all that it keeps with checkpointing: T h residual."""
    return packing.tokens * shape.hidden * precision.residual


def activations(shape: Shape, packing: Packing, precision: Precision, *, checkpointing: bool) -> int:
    """Bytes kept for the backward pass by all layers, the last norm and the log-prob kernel."""
    inputs = layer_inputs(shape, packing, precision)
    layer = inputs if checkpointing else layer_activations(shape, packing, precision)
    last = inputs * (2 if shape.root_mean_square and not precision.fused else 1)
    scored = packing.scored * shape.hidden * (precision.residual if precision.fused else FULL)
    return shape.layers * layer + last + scored


def logits(shape: Shape, rows: int, copies: int) -> int:
    """Bytes of float32 logits: rows V 4 copies."""
    return rows * shape.vocabulary * FULL * copies


def whole_logits(shape: Shape, rows: int) -> int:
    """Bytes of logits that are made for all rows at once: rows V (2 + 4 + 4), in bfloat16, in float32, and their
    gradient."""
    return rows * shape.vocabulary * (2 + 2 * FULL)


def passing(shape: Shape, packing: Packing, precision: Precision) -> int:
    """Bytes at the height of one layer's forward pass without a gradient.

    stream       residual T h (embedding, layer's input, sum) and compute T h
    attention    compute (2 queries (H + O) + 2 K (T + keys))        as they are and padded
    MLP          compute T F (activated gate, up, product)           whichever is more
    """
    tokens, compute = packing.tokens, precision.compute
    stream = tokens * shape.hidden * (3 * precision.residual + compute)
    rotary = 0 if shape.positions else 2 * tokens * shape.head_dim * precision.residual
    attention = compute * (2 * packing.queries * (shape.queries + shape.values) + 2 * shape.keys * packing.keys)
    attention += compute * 2 * shape.keys * tokens
    if shape.softcap or precision.attention != "flash":
        attention += compute * shape.heads * packing.scores
    mlp = compute * tokens * shape.active * (2 + shape.gated + 3 * shape.stepwise_activation)
    return stream + rotary + max(attention, mlp)
