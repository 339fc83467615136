"""Bytes that training takes, by component and phase: arithmetic on sizes alone, no torch, no weights.

    peak = max over phases of (networks + what the phase adds)

    rollout     keys and values of the rows being decoded, packed weights, logits of one step
    update      activations of a micro-batch, and at their height logits or the backward pass of one layer

Passes without a gradient, of the reference for instance, take less than the update in every component.

How much autograd keeps per token was read off what it saves on packed groups, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupwise.planning.shape import Shape

FULL = 4
"""Bytes of a float32."""

CHUNK_ROWS = 256
"""Rows of logits that the log-prob kernel holds at a time."""

PACKED_FROM = 2**16
"""Numbers in a matrix from which on it is packed."""


@dataclass(frozen=True)
class Recipe:
    """Bytes per parameter of one network."""

    weight: float
    gradient: float
    master: float
    """A float32 copy beside rounded weights."""
    moments: float

    def network(self, parameters: int, trained: int) -> dict[str, int]:
        """Components of a network of which `trained` parameters are trained."""
        state = {"gradients": self.gradient, "master weights": self.master, "optimiser": self.moments}
        parts = {"weights": round(self.weight * parameters)}
        return parts | {name: round(size * trained) for name, size in state.items() if size and trained}


OURS = Recipe(weight=4, gradient=4, master=0, moments=8)
"""float32 throughout, with AdamW's two moments: 16 bytes per trained parameter, 4 per frozen one."""


@dataclass(frozen=True)
class Precision:
    """What activations are kept in."""

    residual: int
    """Bytes of a number between layers."""
    compute: int
    """Bytes of a number inside them."""
    fused: bool = False
    """Norms that keep only their input, and attention whose output isn't copied, as in hand-written kernels."""


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
        attention    compute (2 queries H + 2 keys K + mask) + 4 queries heads
        output       compute T H
        MLP          compute T F (gate, activation, up, product)

    T tokens, h hidden, H and K the widths of queries and keys, F of the MLP.
    """
    tokens, hidden, wide, narrow = packing.tokens, shape.hidden, shape.queries, shape.keys
    residual, compute, fused = precision.residual, precision.compute, precision.fused
    kept = 2 if shape.root_mean_square and not fused else 1
    numbers = 0 if fused else 1 if shape.root_mean_square else 2
    norms = shape.norms * tokens * (kept * hidden * residual + numbers * FULL)
    cast = compute != residual
    copies = 2 if shape.fused_projections or not cast else 5 if shape.gated else 4
    if shape.experts > 1:
        copies += 2 * shape.experts_per_token  # what each expert gets, and what it gives before it is weighted
    inputs = copies * tokens * hidden * compute
    head_norms = 0
    if shape.head_norms:
        head_norms = tokens * ((wide + narrow) * (compute + residual) + (shape.heads + shape.kv_heads) * FULL)
    if shape.softcap:
        scores = 2 * shape.heads * packing.scores
        attention = compute * (packing.queries * wide + 2 * packing.keys * wide + scores) + packing.mask
    else:
        attention = compute * (2 * packing.queries * wide + 2 * packing.keys * narrow + packing.mask)
        attention += FULL * packing.queries * shape.heads
    output = 0 if fused else compute * tokens * wide
    mlp = compute * tokens * shape.active * (2 + 2 * shape.gated + 3 * shape.stepwise_activation)
    return norms + inputs + head_norms + attention + output + mlp


def activations(shape: Shape, packing: Packing, precision: Precision, *, checkpointing: bool) -> int:
    """Bytes kept for the backward pass by all layers, the last norm and the log-prob kernel.

    With checkpointing a layer keeps its input alone: T h residual.
    """
    inputs = packing.tokens * shape.hidden * precision.residual
    layer = inputs if checkpointing else layer_activations(shape, packing, precision)
    last = inputs * (2 if shape.root_mean_square else 1)
    return shape.layers * layer + last + packing.scored * shape.hidden * FULL


def logits(shape: Shape, rows: int, copies: int) -> int:
    """Bytes of float32 logits: rows V 4 copies."""
    return rows * shape.vocabulary * FULL * copies


def kv_bytes(shape: Shape, compute: int) -> int:
    """Bytes of one token's keys and values over all layers: 2 L K compute."""
    return 2 * shape.layers * shape.keys * compute


@dataclass(frozen=True)
class Rollout:
    """What is decoded at the same time."""

    prompt: int
    """Tokens of the longest prompt."""
    completion: int
    """Tokens of the longest completion: every row has room for it."""
    samples: int
    rows: int
    """Most rows at a time."""

    @property
    def tokens(self) -> int:
        """Places for keys and values: a prompt once per group, and every row's own."""
        return -(-self.rows // self.samples) * self.prompt + self.rows * self.completion


@dataclass(frozen=True)
class Workload:
    """A model, and what a stage makes of it."""

    shape: Shape
    parameters: int
    trained: int
    """Parameters with a gradient: all of them, or the adapters'."""
    precision: Precision
    packing: Packing
    """The largest micro-batch."""
    policy: bool = True
    """False where only a critic is trained."""
    reference: bool = False
    critic: bool = False
    rollout: Rollout | None = None
    """None where nothing is sampled."""


@dataclass(frozen=True)
class Phase:
    """Bytes held at the height of a phase, by component."""

    name: str
    components: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.components.values())


@dataclass(frozen=True)
class Prediction:
    """The phases of a step."""

    phases: tuple[Phase, ...]

    @property
    def binding(self) -> Phase:
        """The phase that needs the most."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def peak(self) -> int:
        """Bytes at the height of the binding phase."""
        return self.binding.total

    def phase(self, name: str) -> Phase:
        """The phase of this name."""
        return next(phase for phase in self.phases if phase.name == name)


def predict(work: Workload, *, checkpointing: bool) -> Prediction:
    """The phases of a step after the first, when gradients and moments have their place."""
    networks = _networks(work)
    at_rest = {name: size for name, size in networks.items() if "gradients" not in name}
    phases = [Phase("update", networks | _update(work, checkpointing))]
    if work.rollout is not None:
        phases.insert(0, Phase("rollout", at_rest | _decoding(work, work.rollout)))
    return Prediction(tuple(phases))


def _networks(work: Workload) -> dict[str, int]:
    parts = OURS.network(work.parameters, work.trained if work.policy else 0)
    if work.reference:
        parts["reference"] = OURS.network(work.trained, 0)["weights"]
    if work.critic:
        head = work.shape.vocabulary * work.shape.hidden
        parameters = work.parameters - (0 if work.shape.tied else head)
        trained = min(work.trained, parameters)
        parts |= {f"critic's {name}": size for name, size in OURS.network(parameters, trained).items()}
    if work.precision.compute != work.precision.residual:
        parts["rounded weights"] = work.precision.compute * work.shape.linear_parameters
    return parts


def _decoding(work: Workload, rollout: Rollout) -> dict[str, int]:
    """The cache, in float32 the packed copy of the weights that CPUs decode with, and the higher of two moments: rows
    that leave or enter, when a second cache is made before the first goes; or a draw, which holds logits as they are,
    scaled, their exponentials, those in blocks, and one on its way."""
    cache = rollout.tokens * kv_bytes(work.shape, work.precision.compute)
    moments = {"keys and values moved": cache, "logits": logits(work.shape, rollout.rows, 5)}
    height = max(moments, key=lambda name: moments[name])
    shape = work.shape
    copies = FULL if work.precision == FLOAT32 else 0
    packed = copies * shape.parameters_in_matrices(at_least=PACKED_FROM)
    return {"keys and values": cache, "packed weights": packed, height: moments[height]}


def _update(work: Workload, checkpointing: bool) -> dict[str, int]:
    """Activations, and the highest of the moments after which they are gone: logits of the last chunk forward, of the
    first backward, the last layer's backward pass; or, when nothing of them is left, the embedding's gradient."""
    shape, packing, precision = work.shape, work.packing, work.precision
    trained = work.policy + work.critic
    kept = {"activations": trained * activations(shape, packing, precision, checkpointing=checkpointing)}
    head = shape.vocabulary * shape.hidden * FULL if work.policy and work.trained == work.parameters else 0
    rows = min(packing.scored, CHUNK_ROWS)
    forward = {"logits": logits(shape, rows, 2)}
    backward = {"logits": logits(shape, rows, 2 if shape.softcap else 1), "output layer's gradient": head}
    held = {"output layer's gradient": head if shape.tied else 0}  # until the embedding's joins it
    layer = held | {
        "gradients passing": packing.tokens * (shape.active + shape.hidden) * precision.compute,
        "layer computed again": layer_activations(shape, packing, precision) if checkpointing else 0,
    }
    moments = [kept | moment for moment in ([forward, backward, layer] if work.policy else [layer])]
    if head:
        moments.append(held | {"embedding's gradient": head})
    return max(moments, key=lambda moment: sum(moment.values()))
