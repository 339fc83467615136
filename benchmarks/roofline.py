"""What this machine could do: `python roofline.py SCENARIO...` prints seconds per phase if nothing but the matrix
products of the model had to be done, each as fast as the best of four ways to do it was just measured; one of them has
weights that were packed for it, which is not counted.

Weights come from memory, not from a cache: a model's layers follow each other, so each product is timed over enough
different matrices. Attention's own products, norms and the optimiser are left out: what is called efficiency is against
a floor that nothing can reach.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from channel import THREADS
from scenarios import SCENARIOS, Scenario
from torch import Tensor
from torch.nn.functional import linear

from groupwise.models.linear import packed_weight, product

LAYERS, HIDDEN, MIDDLE, KEYS, VOCABULARY = 30, 576, 1536, 192, 49152
SHAPES = {
    "qkv": (HIDDEN, HIDDEN + 2 * KEYS, LAYERS),
    "o": (HIDDEN, HIDDEN, LAYERS),
    "gate_up": (HIDDEN, 2 * MIDDLE, LAYERS),
    "down": (MIDDLE, HIDDEN, LAYERS),
    "head": (HIDDEN, VOCABULARY, 1),
}
"""Inputs, outputs and count of SmolLM2-135M's products."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LARGER_THAN_CACHES = 3e8
"""Bytes of weights that one timing goes through."""

WAYS: tuple[Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], ...] = (
    lambda x, weight, turned, packed: linear(x, weight),
    lambda x, weight, turned, packed: torch.mm(weight, x.t()).t(),
    lambda x, weight, turned, packed: torch.mm(x, turned),
    lambda x, weight, turned, packed: product(x, weight, packed=packed),
)


def seconds_per_product(inputs: int, outputs: int, rows: int) -> float:
    """CPU seconds of [rows, inputs] times [inputs, outputs], by the best way; best of three rounds."""
    count = max(2, round(LARGER_THAN_CACHES / (4 * inputs * outputs)))
    weights = [torch.randn(outputs, inputs) for _ in range(count)]
    turned = [weight.t().contiguous() for weight in weights]
    packed = [packed_weight(weight, rows) for weight in weights]
    x = torch.randn(rows, inputs)
    best = float("inf")
    for way in WAYS:
        for _ in range(3):
            start = time.process_time()
            for three in zip(weights, turned, packed, strict=True):
                way(x, *three)
            best = min(best, (time.process_time() - start) / count)
    return best


class Roofline:
    """Interpolates the measured rates."""

    def __init__(self) -> None:
        self.seconds = {
            name: {rows: seconds_per_product(inputs, outputs, rows) for rows in ROWS}
            for name, (inputs, outputs, _) in SHAPES.items()
        }

    def product(self, name: str, rows: int) -> float:
        """CPU seconds of one product with this many rows: linear between measured ones, the best rate beyond them."""
        table = self.seconds[name]
        if rows >= ROWS[-1]:
            return rows * min(seconds / at for at, seconds in table.items())
        below = max(at for at in ROWS if at <= rows)
        above = min(at for at in ROWS if at >= rows)
        share = 0.0 if above == below else (rows - below) / (above - below)
        return table[below] + share * (table[above] - table[below])

    def body(self, rows: int) -> float:
        """One forward of all layers."""
        return sum(count * self.product(name, rows) for name, (_, _, count) in SHAPES.items() if name != "head")

    def rollout(self, scenario: Scenario) -> float:
        """Prompts once each, then every completion's tokens, finished rows left out."""
        lengths = scenario.lengths() * scenario.groups
        prompts = scenario.groups * scenario.prompt_tokens
        total = self.body(prompts) + self.product("head", scenario.groups)
        for position in range(1, max(lengths)):
            rows = sum(length > position for length in lengths)
            total += self.body(rows) + self.product("head", rows)
        return total

    def update(self, scenario: Scenario) -> float:
        """Forward and backward of what has a gradient, prompts once."""
        groups = scenario.groups - round(scenario.degenerate * scenario.groups)
        completions = groups * sum(scenario.lengths())
        return 3 * (self.body(groups * scenario.prompt_tokens + completions) + self.product("head", completions))

    def gigaflops(self) -> dict[str, dict[int, float]]:
        """The measured rates."""
        return {
            name: {rows: 2e-9 * rows * SHAPES[name][0] * SHAPES[name][1] / seconds for rows, seconds in table.items()}
            for name, table in self.seconds.items()
        }


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    roofline = Roofline()
    floors = {
        name: {"rollout": roofline.rollout(SCENARIOS[name]), "update": roofline.update(SCENARIOS[name])}
        for name in sys.argv[1:]
    }
    print(json.dumps({"gigaflops": roofline.gigaflops(), "seconds": floors}))


if __name__ == "__main__":
    main()
