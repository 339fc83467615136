"""The sizes of a decoder that memory depends on, read from a transformers config without any weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "gated": False,
        "root_mean_square": False,
        "biases": "all",
        "fused_projections": True,
        "learned_positions": True,
    },
    "qwen2": {"biases": "queries, keys, values"},
    "qwen3": {"head_norms": True},
    "qwen3_moe": {"head_norms": True},
    "olmo2": {"head_norms": True},
    "gemma2": {"norms": 4},
    "gemma3_text": {"norms": 4, "head_norms": True},
    "phi3": {"fused_projections": True},
    "cohere": {"norms": 1},
}
"""By `model_type`: in what a family differs from Llama."""

STEPWISE = {"gelu_new"}
"""Activation functions that transformers writes out in Python: autograd keeps three more tensors for them."""


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes. The defaults are Llama's choices."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    """Width of the MLP, or of one expert."""
    vocabulary: int
    tied: bool
    """The output layer is the embedding."""
    window: int | None = None
    """How many positions a query sees; None: all."""
    experts: int = 1
    experts_per_token: int = 1
    gated: bool = True
    """The MLP has a gate beside its two matrices."""
    root_mean_square: bool = True
    """Norms are RMSNorm, for which autograd keeps input and normalised input; LayerNorm keeps its input."""
    norms: int = 2
    """Norms over the hidden size in each layer."""
    head_norms: bool = False
    """Queries and keys are normalised too."""
    fused_projections: bool = False
    """Queries, keys and values come from one matrix; gate and up too."""
    biases: Literal["none", "queries, keys, values", "all"] = "none"
    softcap: bool = False
    """Attention scores are capped, so they are computed one by one and kept."""
    stepwise_activation: bool = False
    """See `STEPWISE`."""
    positions: int = 0
    """Learned position embeddings."""

    @classmethod
    def of(cls, config: Any) -> Shape:
        """The shape that a transformers config describes. Families that aren't known are taken for Llama's kin."""
        config = config.get_text_config()
        family = dict(FAMILIES.get(config.model_type, {}))
        learned = family.pop("learned_positions", False)
        hidden, heads = config.hidden_size, _number(config, "num_attention_heads", default=1)
        experts = _number(config, "num_experts", "num_local_experts", default=1)
        width = ("moe_intermediate_size",) if experts > 1 else ()
        names = ("hidden_act", "hidden_activation", "activation_function")
        return cls(
            layers=config.num_hidden_layers,
            hidden=hidden,
            heads=heads,
            kv_heads=_number(config, "num_key_value_heads", default=heads),
            head_dim=_number(config, "head_dim", default=hidden // heads),
            intermediate=_number(config, *width, "intermediate_size", "n_inner", default=4 * hidden),
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
            window=getattr(config, "sliding_window", None),
            experts=experts,
            experts_per_token=_number(config, "num_experts_per_tok", default=1),
            softcap=bool(getattr(config, "attn_logit_softcapping", None)),
            stepwise_activation=any(getattr(config, name, None) in STEPWISE for name in names),
            positions=config.max_position_embeddings if learned else 0,
            **family,
        )

    @property
    def queries(self) -> int:
        """Width of all heads' queries; not always the hidden size."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all heads' keys."""
        return self.kv_heads * self.head_dim

    @property
    def active(self) -> int:
        """Width of the MLP that one token goes through."""
        return self.intermediate * self.experts_per_token

    @property
    def matrices(self) -> Sequence[tuple[int, int]]:
        """(in, out) of one layer's matrices, as if none were fused; an expert's once."""
        h, f = self.hidden, self.intermediate
        attention = [(h, self.queries), (h, self.keys), (h, self.keys), (self.queries, h)]
        return [*attention, *[(h, f)] * (2 if self.gated else 1), (f, h)]

    @property
    def parameters(self) -> int:
        """Numbers that the model holds; exact for Llama, Qwen2, Qwen3 and GPT-2."""
        h, sizes = self.hidden, [a * b for a, b in self.matrices]
        layer = sum(sizes[:4]) + self.experts * sum(sizes[4:]) + (h * self.experts if self.experts > 1 else 0)
        layer += self.norms * h + (2 * self.head_dim if self.head_norms else 0)
        norm = h
        if self.biases != "none":
            layer += self.queries + 2 * self.keys
        if self.biases == "all":
            layer += h + sum(out for _, out in self.matrices[4:]) + self.norms * h
            norm += h
        embedding = self.vocabulary * h * (1 if self.tied else 2) + self.positions * h
        return embedding + self.layers * layer + norm

    @property
    def linear_parameters(self) -> int:
        """Of the layers' matrices: what autocast keeps a second copy of."""
        sizes = [a * b for a, b in self.matrices]
        return self.layers * (sum(sizes[:4]) + self.experts * sum(sizes[4:]))

    def parameters_in_matrices(self, at_least: int) -> int:
        """Of the layers' matrices and the output layer: those in matrices of this size or larger."""
        sizes = [a * b * (1 if index < 4 else self.experts) * self.layers for index, (a, b) in enumerate(self.matrices)]
        large = [size for size, (a, b) in zip(sizes, self.matrices, strict=True) if a * b >= at_least]
        head = self.vocabulary * self.hidden
        return sum(large) + (head if head >= at_least else 0)

    def lora_parameters(self, rank: int) -> int:
        """Of adapters on every matrix of every layer: rank * (in + out) each."""
        sizes = [rank * (a + b) for a, b in self.matrices]
        return self.layers * (sum(sizes[:4]) + self.experts * sum(sizes[4:]))


def _number(config: Any, *names: str, default: int) -> int:
    """The first of these that the config has; the largest where it has one per layer."""
    found = next((value for name in names if (value := getattr(config, name, None))), default)
    return max(found) if isinstance(found, list | tuple) else found
