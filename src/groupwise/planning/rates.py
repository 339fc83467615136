"""How long the passes of one model take on one device: from a table of devices, or as they were measured here.

    Roofline    max(operations / rate, bytes / bandwidth), each at a stated fraction of the data sheet's number
    Measured    interpolated between timings of a few layers of the model itself, attention's pairs apart

Both answer the same questions (`Rates`), so a step is put together once, in `groupwise.planning.time`. All times are
seconds of the whole model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from groupwise.planning.devices import Device
from groupwise.planning.shape import Shape


class Rates(Protocol):
    """`pairs`: how many (query, key) pairs attention scores, the same in each layer."""

    def forward(self, tokens: float, pairs: float) -> float:
        """Seconds of all layers on a packed axis, without a gradient."""

    def train(self, tokens: float, pairs: float, *, checkpointing: bool) -> float:
        """Seconds of all layers, forward and backward; with checkpointing a second forward."""

    def log_probs(self, rows: float, *, gradient: bool) -> float:
        """Seconds of the output layer and the log-prob kernel, with a gradient forward and backward."""

    def embed(self) -> float:
        """Seconds that the embedding's gradient takes in one backward pass."""

    def accumulate(self) -> float:
        """Seconds to add a second micro-batch's gradients to the first's."""

    def decode(self, rows: int, prompt: float, held: float, *, packed: bool) -> float:
        """Seconds of one more token for each of `rows`, drawn from its logits; each sees its prompt and `held` tokens.

        packed: weights lie as the decoder likes them.
        """

    def pack(self) -> float:
        """Seconds to lay the weights so."""

    def move(self, tokens: float) -> float:
        """Seconds to copy the keys and values of so many tokens."""

    def first_tokens(self, prompts: float) -> float:
        """Seconds of the logits of as many prompts."""

    def optimise(self, ranks: int) -> float:
        """Seconds of clipping and AdamW, with parameters and moments over `ranks` devices."""

    def critic_optimise(self, ranks: int) -> float:
        """The same for a critic: the model without an output layer of its own."""

    def gather(self, ranks: int, per_machine: int) -> float:
        """Seconds in which every one of `ranks` devices gets all weights, of which each holds a part."""


@dataclass(frozen=True)
class Efficiency:
    """Which part of the data sheet's numbers programs reach. The defaults are what well-kept systems report."""

    compute: float = 0.4
    """Of operations per second: "model FLOP utilisation", 35 to 50 % in training on packed sequences."""
    bandwidth: float = 0.7
    """Of memory bandwidth while decoding."""
    link: float = 0.7
    """Of what lies between devices."""
    network: float = 50e9
    """Bytes per second that each device adds to what goes between machines: 400 Gbit/s, as is usual with eight GPUs."""
    layer: float = 30e-6
    """Seconds per layer of one decoding step that no roofline shows: about ten kernels, launched from a graph."""


@dataclass(frozen=True)
class Roofline:
    """A model on `tensor_parallel` devices of a kind."""

    device: Device
    shape: Shape
    parameters: int
    precision: int = 2
    """Bytes of a weight and of an activation."""
    tensor_parallel: int = 1
    trained: float = 1.0
    """Share of parameters with a gradient."""
    efficiency: Efficiency = field(default_factory=Efficiency)

    @property
    def _body(self) -> float:
        """Parameters of the matrices that one token goes through."""
        return self._matrices(self.shape.active)

    @property
    def _head(self) -> int:
        return self.shape.vocabulary * self.shape.hidden

    def _matrices(self, width: float) -> float:
        """Parameters of all layers' matrices where those with experts have an MLP of this width; in proportion where
        the model has another number of parameters than its shape."""
        shape = self.shape
        attention = sum(a * b for a, b in shape.attention_matrices)
        mlp = sum(a * b for a, b in shape.mlp_matrices(1))  # per unit of width
        wide = (shape.layers - shape.dense_layers) * width + shape.dense_layers * shape.dense_intermediate
        return (shape.layers * attention + mlp * wide) * self.parameters / shape.parameters

    def _compute(self, operations: float) -> float:
        return operations / (self.device.operations[self.precision] * self.efficiency.compute * self.tensor_parallel)

    def _read(self, size: float) -> float:
        return size / (self.device.bandwidth * self.efficiency.bandwidth * self.tensor_parallel)

    def _reduce(self, tokens: float, times: int) -> float:
        """The sums over tensor-parallel devices, `times` per layer: a ring sends 2 (t - 1) / t of what is summed."""
        t, shape = self.tensor_parallel, self.shape
        size = times * shape.layers * tokens * shape.hidden * self.precision * 2 * (t - 1) / t
        return size / (self.device.link * self.efficiency.link)

    def _scores(self, pairs: float) -> float:
        """Operations of attention's two products, forward."""
        return 4 * self.shape.layers * self.shape.queries * pairs

    def _layers_read(self, rows: float) -> float:
        """Bytes of the layers' weights that `rows` tokens touch: of experts, those that some token chose."""
        shape = self.shape
        chosen = shape.experts * (1 - (1 - shape.experts_per_token / shape.experts) ** max(1.0, rows))
        return self.precision * self._matrices(shape.intermediate * (chosen + shape.shared_experts))

    def forward(self, tokens: float, pairs: float) -> float:
        compute = self._compute(2 * self._body * tokens + self._scores(pairs))
        return max(compute, self._read(self._layers_read(tokens))) + self._reduce(tokens, 2)

    def train(self, tokens: float, pairs: float, *, checkpointing: bool) -> float:
        operations = 2 * self._body * tokens * (2 + self.trained) + 3.5 * self._scores(pairs)  # flash: 5 products for 2
        again = self.forward(tokens, pairs) if checkpointing else 0.0
        return self._compute(operations) + self._reduce(tokens, 4) + again

    def log_probs(self, rows: float, *, gradient: bool) -> float:
        times = 3 + (self.trained == 1) if gradient else 1  # forward, again, to the hidden states, to the weights
        return self._compute(2 * self._head * rows * times)

    def embed(self) -> float:
        return self._read(self._head * 4 * 2) if self.trained == 1 else 0.0

    def accumulate(self) -> float:
        return self._read(self.trained * self.parameters * self.precision * 3)

    def decode(self, rows: int, prompt: float, held: float, *, packed: bool) -> float:
        shape = self.shape
        seen = rows * (prompt + held)
        compute = self._compute(2 * (self._body + self._head) * rows + self._scores(seen))
        cache = shape.layers * shape.cached * self.precision * seen
        read = self._read(self._layers_read(rows) + self._head * self.precision + cache)
        return max(compute, read) + self._reduce(rows, 2) + shape.layers * self.efficiency.layer

    def pack(self) -> float:
        return 0.0

    def move(self, tokens: float) -> float:
        return 0.0  # keys and values lie in pages, which stay where they are

    def first_tokens(self, prompts: float) -> float:
        return self._compute(2 * self._head * prompts)

    def optimise(self, ranks: int) -> float:
        return self._adamw(self.trained * self.parameters, ranks)

    def critic_optimise(self, ranks: int) -> float:
        return self._adamw(self.trained * (self.parameters - (0 if self.shape.tied else self._head)), ranks)

    def _adamw(self, parameters: float, ranks: int) -> float:
        """A float32 weight and its moments read and written, the gradient read twice and scaled once: 36 bytes."""
        return self._read(36 * parameters / ranks)

    def gather(self, ranks: int, per_machine: int) -> float:
        speed = self.device.link
        if ranks * self.tensor_parallel > per_machine:  # rings through all of a machine's ports share the work
            speed = min(speed, per_machine * self.efficiency.network)
        size = self.parameters * self.precision / self.tensor_parallel
        return size * (ranks - 1) / ranks / (speed * self.efficiency.link)


Table = Mapping[int, float]
"""Seconds by number of rows."""


@dataclass(frozen=True)
class Measured:
    """Timings on this machine, of a few layers as wide as the model's, or of its output layer; seconds throughout.

    With one thread they are CPU seconds, which neighbours on a shared machine disturb least.
    """

    layers: int
    """Layers of the model that is planned for."""
    cached: int
    """Numbers that a cache keeps of one token in one layer."""
    layer_forward: Table
    """One layer without gradient, by tokens."""
    layer_train: Table
    """One layer forward and backward."""
    layer_recomputed: Table
    """The same with checkpointing; empty for models whose layers can't be computed again."""
    layer_decode: Table
    """One layer of a decoding step, by rows, with weights as they are."""
    layer_decode_packed: Table
    head_forward: Table
    """Output layer and log-prob kernel without gradient."""
    head_train: Table
    head_decode: Table
    """Output layer and draw."""
    head_decode_packed: Table
    pair_forward: float
    """One pair of one layer's attention, all heads."""
    pair_train: float
    decode_own: float
    """One more token of its own that one row of one layer attends to while decoding."""
    decode_prompt: float
    """One more token of the prompt."""
    embedding: float
    """The embedding's gradient."""
    packing: float
    """All weights, laid once for decoding."""
    per_parameter: float
    """Clipping and AdamW."""
    trained: int
    """Parameters with a gradient."""
    critic_trained: int
    """The same of a critic: without an output layer of its own."""
    bandwidth: float
    """Bytes per second that a copy moves, counted once."""
    operations: float
    """The best rate that a matrix product reached."""

    def forward(self, tokens: float, pairs: float) -> float:
        return self.layers * (interpolated(self.layer_forward, tokens) + self.pair_forward * pairs)

    def train(self, tokens: float, pairs: float, *, checkpointing: bool) -> float:
        pairs *= self.pair_train + (self.pair_forward if checkpointing else 0.0)
        table = self.layer_recomputed if checkpointing else self.layer_train
        return self.layers * (interpolated(table, tokens) + pairs)

    def log_probs(self, rows: float, *, gradient: bool) -> float:
        return interpolated(self.head_train if gradient else self.head_forward, rows)

    def embed(self) -> float:
        return self.embedding

    def accumulate(self) -> float:
        return 12 * self.trained / (2 * self.bandwidth)  # two reads and a write; a copy's read and write are one byte

    def decode(self, rows: int, prompt: float, held: float, *, packed: bool) -> float:
        layer = interpolated(self.layer_decode_packed if packed else self.layer_decode, rows)
        head = interpolated(self.head_decode_packed if packed else self.head_decode, rows)
        return self.layers * (layer + rows * (held * self.decode_own + prompt * self.decode_prompt)) + head

    def pack(self) -> float:
        return self.packing

    def move(self, tokens: float) -> float:
        return tokens * self.layers * self.cached * 4 / self.bandwidth

    def first_tokens(self, prompts: float) -> float:
        return interpolated(self.head_decode, prompts)

    def optimise(self, ranks: int) -> float:
        return self.per_parameter * self.trained / ranks

    def critic_optimise(self, ranks: int) -> float:
        return self.per_parameter * self.critic_trained / ranks

    def gather(self, ranks: int, per_machine: int) -> float:
        assert ranks == 1, "one machine was measured, and its trainer is one process"
        return 0.0


def interpolated(table: Table, rows: float) -> float:
    """Seconds at `rows`: straight lines between measured points; beyond the last at its rate per row, and below the
    first as long as there, for so few rows the weights are read all the same."""
    points = sorted(table)
    if rows <= points[0]:
        return table[points[0]]
    if rows >= points[-1]:
        return table[points[-1]] * rows / points[-1]
    place = bisect_left(points, rows)
    low, high = points[place - 1], points[place]
    share = (rows - low) / (high - low)
    return table[low] + share * (table[high] - table[low])
