"""How fast this machine is for one model: a few of its layers, its output layer and its optimiser, timed for seconds.

What is timed is the code that training runs, at the model's own widths and with random weights, so that no weights are
read. Layers are as many as it takes to be larger than caches. With one thread the seconds are CPU seconds.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from groupwise.engines.draws import uniforms
from groupwise.engines.sampling import draw
from groupwise.errors import ModelError
from groupwise.models import linear
from groupwise.models.attention import Scoring
from groupwise.models.checkpointing import recompute_layers
from groupwise.models.decode import Decode, Rows
from groupwise.models.forward import Forward
from groupwise.models.log_probs import Head, token_log_probs
from groupwise.models.lora import add_adapter
from groupwise.models.packed import Packed
from groupwise.models.settings import LoraSettings
from groupwise.planning.rates import Measured
from groupwise.planning.shape import Shape
from groupwise.run import OptimizerSettings
from groupwise.training.optimizer import Optimizer

LARGER_THAN_CACHES = 100e6
"""Bytes of the layers that a decoding step goes through; a real model's don't stay in a cache between steps either."""

ROWS = (1, 16, 64, 4, 32, 8, 2)
TOKENS = (16, 256, 64, 512)
LOGITS = (32, 256)
"""Sizes that are timed, those first that tell most: of slow models only some are."""
SIBLINGS, PROMPT, FEW, MANY = 8, 32, 8, 264
"""Of decoding: rows of a group, tokens of its prompt, and tokens that rows already hold, few and many."""


def _typical(work: Callable[[], Any], seconds: float = 0.3) -> float:
    """The median of three, or of fewer where they take longer than this; the first call isn't counted.

    Not the quickest: a step doesn't find caches as warm as a repetition does.
    """
    now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    work()
    found, end = [], time.perf_counter() + seconds
    for _ in range(3):
        start = now()
        work()
        found.append(now() - start)
        if time.perf_counter() > end:
            break
    return median(found)


def _table(
    seconds: float, sizes: Sequence[int], work: Callable[[int], Callable[[], Any]], over: int = 1
) -> dict[int, float]:
    """Seconds by size, over `over`: the first three sizes at least, the others as time allows."""
    found: dict[int, float] = {}
    end = time.perf_counter() + seconds
    for size in sizes:
        start = time.perf_counter()
        found[size] = _typical(work(size)) / over
        last = time.perf_counter() - start
        if len(found) > 2 and time.perf_counter() + last > end:
            break
    return dict(sorted(found.items()))


def calibrate(config: Any, lora: LoraSettings | None = None, *, seconds: float = 8.0) -> Measured:
    """Time what a model of this transformers config costs in float32 on the CPU, for about so many seconds.

    lora: adapters are trained. Raises `ModelError` where they can't be put on.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        text = config.get_text_config()
        shape = Shape.of(text)
        layer = max(1, 4 * shape.linear_parameters // shape.layers)
        many = max(1, min(shape.layers, round(LARGER_THAN_CACHES / layer)))
        decoding = _decoding(seconds * 0.1, _model(text, many, lora), many)
        few = min(2, shape.layers)
        model = _model(text, few, lora)
        training = _training(seconds * 0.15, model, few)
        optimiser = _optimiser(model)
        head = _head(seconds * 0.05, shape, trained=lora is None)
        attention = _attention(shape)
        machine = _machine(shape)
    whole = shape.parameters if lora is None else shape.lora_parameters(lora.rank)
    output = shape.vocabulary * shape.hidden if lora is None and not shape.tied else 0
    packing = decoding.pop("packing") * shape.layers + head.pop("packing")
    tables: dict[str, Any] = decoding | training | head | attention | machine
    sizes: dict[str, Any] = {
        "layers": shape.layers,
        "cached": shape.cached,
        "trained": whole,
        "critic_trained": whole - output,
    }
    return Measured(**sizes, packing=packing, per_parameter=optimiser, **tables)


def _model(config: Any, layers: int, lora: LoraSettings | None) -> Forward:
    """So many layers of the model; few words, for the output layer is timed alone."""
    from transformers import AutoModelForCausalLM

    short = copy.deepcopy(config)
    short.num_hidden_layers, short.vocab_size, short.pad_token_id = layers, 256, None
    if getattr(short, "layer_types", None):
        short.layer_types = short.layer_types[:layers]
    model = AutoModelForCausalLM.from_config(short, dtype=torch.float32).eval()
    if lora is not None:
        add_adapter(model, lora, seed=0)
    return Forward(model, torch.float32)


def _decoding(seconds: float, forward: Forward, layers: int) -> dict[str, Any]:
    """Layers of a decoding step, plain and packed, and what more to attend to adds."""
    shape = Shape.of(forward.model.config)

    def step(rows: int, prompt: int = PROMPT, held: int = FEW) -> Callable[[], Any]:
        layout = _decode_layout(shape, layers, rows, prompt, held)
        tokens, lengths = torch.zeros(rows, dtype=torch.int64), torch.full((rows,), held)

        @torch.no_grad()
        def work() -> None:
            layout.step(lengths)
            forward.hidden(tokens, layout.row_prompt + lengths, layout)

        return work

    plain = _table(seconds, ROWS, step, layers)
    packing = _typical(lambda: _pack(forward)) / layers
    with forward.packed_weights.holding():
        forward.packed_weights.pack(SIBLINGS)
        packed = _table(seconds, tuple(plain), step, layers)
        base = _typical(step(SIBLINGS))
        own = _typical(step(SIBLINGS, held=MANY)) - base
        prompt = _typical(step(SIBLINGS, prompt=PROMPT + MANY - FEW)) - base
    more = layers * SIBLINGS * (MANY - FEW)
    return {
        "layer_decode": plain,
        "layer_decode_packed": packed,
        "decode_own": max(0.0, own) / more,
        "decode_prompt": max(0.0, prompt) / more,
        "packing": packing,
    }


def _pack(forward: Forward) -> None:
    with forward.packed_weights.holding():
        forward.packed_weights.pack(SIBLINGS)


def _decode_layout(shape: Shape, layers: int, rows: int, prompt: int, held: int) -> Decode:
    groups = -(-rows // SIBLINGS)
    size = (shape.kv_heads, shape.head_dim)

    def state() -> Rows:
        prompts = [torch.randn(groups, size[0], prompt, size[1]) for _ in range(2)]
        own = [torch.randn(rows, size[0], held + 1, size[1]) for _ in range(2)]
        return Rows(*prompts, *own)

    return Decode({n: state() for n in range(layers)}, [row // SIBLINGS for row in range(rows)], [prompt] * groups)


def _training(seconds: float, forward: Forward, layers: int) -> dict[str, Any]:
    """Layers on packed groups, forward alone and with the backward pass; no gradients are there to be added to."""

    def batch(tokens: int) -> tuple[Tensor, Tensor, Packed]:
        own = max(1, tokens // (2 * SIBLINGS))
        prompt = max(1, tokens - SIBLINGS * own)
        spans = [(prompt + row * own, prompt + (row + 1) * own) for row in range(SIBLINGS)]
        positions = torch.cat([torch.arange(prompt)] + [torch.arange(prompt, prompt + own)] * SIBLINGS)
        return (
            torch.zeros(len(positions), dtype=torch.int64),
            positions,
            Packed([(0, prompt)], [spans], torch.device("cpu")),
        )

    def plain(tokens: int) -> Callable[[], Any]:
        parts = batch(tokens)
        return torch.no_grad()(lambda: forward.hidden(*parts))

    def trained(tokens: int) -> Callable[[], Any]:
        parts = batch(tokens)

        def work() -> None:
            forward.model.zero_grad(set_to_none=True)
            hidden = forward.hidden(*parts)
            hidden.backward(torch.ones_like(hidden))

        return work

    tables: dict[str, Any] = {
        "layer_forward": _table(seconds, TOKENS, plain, layers),
        "layer_train": _table(seconds, TOKENS, trained, layers),
        "layer_recomputed": {},
    }
    try:
        recompute_layers(forward.model)
    except ModelError:
        return tables  # such a model isn't trained with checkpointing either
    return tables | {"layer_recomputed": _table(seconds, TOKENS, trained, layers)}


def _optimiser(forward: Forward) -> float:
    """Seconds per trained parameter of clipping and AdamW, on the gradients that are there."""
    parameters = [parameter for parameter in forward.model.parameters() if parameter.requires_grad]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    optimizer = Optimizer(parameters, OptimizerSettings(), learning_rate=1e-9, steps=1)

    def work() -> None:
        optimizer.clip()
        optimizer.step(0)

    return _typical(work) / sum(parameter.numel() for parameter in parameters)


def _head(seconds: float, shape: Shape, *, trained: bool) -> dict[str, Any]:
    """The output layer: log-probs with and without gradient, a draw, and the embedding's gradient."""
    weight = nn.Parameter(torch.randn(shape.vocabulary, shape.hidden) * 0.02, requires_grad=trained)
    plain = Head(weight, None, 1.0, None)

    def scored(rows: int, gradient: bool) -> Callable[[], Any]:
        hidden = torch.randn(rows, shape.hidden, requires_grad=gradient)
        targets = torch.zeros(rows, dtype=torch.int64)

        def work() -> None:
            weight.grad = None
            with torch.set_grad_enabled(gradient):
                log_probs, _ = token_log_probs(hidden, plain, targets, 1.0)
                if gradient:
                    log_probs.sum().backward()

        return work

    def drawn(rows: int, head: Head) -> Callable[[], Any]:
        hidden, temperatures = torch.randn(rows, shape.hidden), torch.ones(rows)

        @torch.no_grad()
        def work() -> None:
            numbers = torch.from_numpy(uniforms(list(range(rows)), [0] * rows))
            tokens, log_probs = draw(head.logits(hidden), temperatures, numbers)
            tokens.tolist(), log_probs.tolist()

        return work

    def embedded() -> None:
        torch.nn.functional.embedding(torch.zeros(64, dtype=torch.int64), weight).sum().backward()

    tables: dict[str, Any] = {
        "head_decode": _table(seconds, ROWS, lambda rows: drawn(rows, plain)),
        "head_forward": _table(seconds, LOGITS, lambda rows: scored(rows, False)),
        "head_train": _table(seconds, LOGITS, lambda rows: scored(rows, True)),
        "embedding": _typical(embedded) if trained else 0.0,
    }
    packed, packing = plain, 0.0
    if linear.applies(weight[:1], weight):
        packing = _typical(lambda: linear.packed_weight(weight, SIBLINGS))
        packed = Head(weight, None, 1.0, None, linear.packed_weight(weight, SIBLINGS))
    rows = tuple(tables["head_decode"])
    return tables | {"head_decode_packed": _table(seconds, rows, lambda rows: drawn(rows, packed)), "packing": packing}


def _attention(shape: Shape, prompt: int = 256, own: int = 128) -> dict[str, float]:
    """Seconds per pair of one layer, of one group."""
    tokens = prompt + SIBLINGS * own
    spans = [(prompt + row * own, prompt + (row + 1) * own) for row in range(SIBLINGS)]
    layout = Packed([(0, prompt)], [spans], torch.device("cpu"))
    parts = [torch.randn(1, heads, tokens, shape.head_dim) for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
    pairs = prompt**2 / 2 + SIBLINGS * (prompt * own + own**2 / 2)

    def work(gradient: bool) -> None:
        query, key, value = (part.requires_grad_(gradient) for part in parts)
        mixed = layout(0, query, key, value, Scoring(None, None, None))
        if gradient:
            mixed.sum().backward()

    return {"pair_forward": _typical(partial(work, False)) / pairs, "pair_train": _typical(partial(work, True)) / pairs}


def _machine(shape: Shape) -> dict[str, float]:
    """Copying, and the best matrix product, at the size of the MLP's."""
    source = torch.zeros(16_000_000)
    target = torch.empty_like(source)
    x, weight = torch.randn(256, shape.hidden), torch.randn(shape.intermediate, shape.hidden)
    multiply = linear.product if linear.applies(x, weight) else nn.functional.linear
    return {
        "bandwidth": 4 * source.numel() / _typical(lambda: target.copy_(source)),
        "operations": 2 * x.shape[0] * weight.numel() / _typical(lambda: multiply(x, weight)),
    }
