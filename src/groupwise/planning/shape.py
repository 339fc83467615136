"""The sizes of a decoder that memory depends on, read from a transformers config without any weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    "deepseek_v3": {"router_bias": True},
}
"""By `model_type`: in what a family differs from Llama."""

STEPWISE = {"gelu_new"}
"""Activation functions that transformers writes out in Python: autograd keeps three more tensors for them."""


@dataclass(frozen=True)
class Latents:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values of all heads come from one vector
    per token, which is all that is cached."""

    keys: int
    """Width of that vector."""
    rotary: int
    """Width of the key beside it that all heads share, for positions."""
    values: int
    """Width of one head's values."""
    queries: int
    """Width of the vector that queries come from; 0: from the hidden state."""


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
    shared_experts: int = 0
    """Experts that every token goes through beside those chosen for it."""
    dense_layers: int = 0
    """Layers at the start that have one MLP in place of experts."""
    dense_intermediate: int = 0
    """Its width."""
    router_bias: bool = False
    """Experts have a number each that balances them."""
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
    latents: Latents | None = None
    """Of latent attention, where `head_dim` is that of queries and keys."""

    @classmethod
    def of(cls, config: Any) -> Shape:
        """The shape that a transformers config describes. Families that aren't known are taken for Llama's kin."""
        config = config.get_text_config()
        family = dict(FAMILIES.get(config.model_type, {}))
        learned = family.pop("learned_positions", False)
        hidden, heads = config.hidden_size, _number(config, "num_attention_heads", default=1)
        experts = _number(config, "num_experts", "num_local_experts", "n_routed_experts", default=1)
        width = ("moe_intermediate_size",) if experts > 1 else ()
        query_width = ("qk_head_dim",) if getattr(config, "kv_lora_rank", None) else ()
        names = ("hidden_act", "hidden_activation", "activation_function")
        return cls(
            layers=config.num_hidden_layers,
            hidden=hidden,
            heads=heads,
            kv_heads=_number(config, "num_key_value_heads", default=heads),
            head_dim=_number(config, *query_width, "head_dim", default=hidden // heads),
            intermediate=_number(config, *width, "intermediate_size", "n_inner", default=4 * hidden),
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
            window=getattr(config, "sliding_window", None),
            experts=experts,
            experts_per_token=_number(config, "num_experts_per_tok", default=1),
            softcap=bool(getattr(config, "attn_logit_softcapping", None)),
            stepwise_activation=any(getattr(config, name, None) in STEPWISE for name in names),
            positions=config.max_position_embeddings if learned else 0,
            **_deepseek(config),
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
    def values(self) -> int:
        """Width of all heads' outputs."""
        return self.heads * (self.latents.values if self.latents else self.head_dim)

    @property
    def cached(self) -> int:
        """Numbers that a cache keeps of one token in one layer."""
        return self.latents.keys + self.latents.rotary if self.latents else 2 * self.keys

    @property
    def active(self) -> int:
        """Width of the MLP that one token goes through, in a layer with experts."""
        return self.intermediate * (self.experts_per_token + self.shared_experts)

    @property
    def attention_matrices(self) -> list[tuple[int, int]]:
        """(in, out) of one layer's attention, as if none were fused."""
        h, latents = self.hidden, self.latents
        if latents is None:
            return [(h, self.queries), (h, self.keys), (h, self.keys), (self.queries, h)]
        unrotated = self.head_dim - latents.rotary
        kept = (h, latents.keys + latents.rotary)
        expanded = (latents.keys, self.heads * (unrotated + latents.values))
        rank = latents.queries
        asked = [(h, rank), (rank, self.queries)] if rank else [(h, self.queries)]
        return [*asked, kept, expanded, (self.values, h)]

    def mlp_matrices(self, width: int) -> list[tuple[int, int]]:
        """(in, out) of an MLP of this width."""
        return [(self.hidden, width)] * (2 if self.gated else 1) + [(width, self.hidden)]

    @property
    def matrices(self) -> Sequence[tuple[int, int]]:
        """(in, out) of one layer's matrices, as if none were fused; an expert's once."""
        return [*self.attention_matrices, *self.mlp_matrices(self.intermediate)]

    @property
    def parameters(self) -> int:
        """Numbers that the model holds; exact for the families of the catalogue."""
        return self.root_parameters + sum(self._layer(index < self.dense_layers) for index in range(self.layers))

    @property
    def root_parameters(self) -> int:
        """Numbers outside the layers: embeddings, output layer and last norm."""
        h = self.hidden
        norm = 2 * h if self.biases == "all" else h
        return self.vocabulary * h * (1 if self.tied else 2) + self.positions * h + norm

    @property
    def layer_parameters(self) -> int:
        """Numbers in one layer, with its experts."""
        return self._layer(dense=False)

    def _layer(self, dense: bool) -> int:
        h, mlp = self.hidden, self.mlp_matrices(self.dense_intermediate if dense else self.intermediate)
        copies = 1 if dense else self.experts + self.shared_experts
        size = _size(self.attention_matrices) + copies * _size(mlp)
        if self.experts > 1 and not dense:
            size += h * self.experts + self.experts * self.router_bias
        size += self.norms * h + (2 * self.head_dim if self.head_norms else 0)
        size += self.latents.queries + self.latents.keys if self.latents else 0  # their norms
        if self.biases != "none":
            size += self.queries + 2 * self.keys
        if self.biases == "all":
            size += h + sum(out for _, out in mlp) + self.norms * h
        return size

    @property
    def linear_parameters(self) -> int:
        """Of the layers' matrices: what autocast keeps a second copy of."""
        return self._over_matrices(lambda a, b: a * b)

    def parameters_in_linear_layers(self, at_least: int) -> int:
        """In linear layers, the output layer among them, whose matrices have this many numbers or more. Experts have
        their matrices in one tensor and are none."""
        mlp = self.mlp_matrices(self.intermediate) if self.experts == 1 else []
        sizes = [a * b for a, b in (*self.attention_matrices, *mlp)]
        head = self.vocabulary * self.hidden
        return self.layers * sum(size for size in sizes if size >= at_least) + (head if head >= at_least else 0)

    def lora_parameters(self, rank: int) -> int:
        """Of adapters on every matrix of every layer: rank * (in + out) each."""
        return self._over_matrices(lambda a, b: rank * (a + b))

    def _over_matrices(self, count: Callable[[int, int], int]) -> int:
        def total(matrices: list[tuple[int, int]]) -> int:
            return sum(count(a, b) for a, b in matrices)

        experts = (self.experts + self.shared_experts) * total(self.mlp_matrices(self.intermediate))
        mlps = (self.layers - self.dense_layers) * experts
        mlps += self.dense_layers * total(self.mlp_matrices(self.dense_intermediate))
        return self.layers * total(self.attention_matrices) + mlps


def _size(matrices: list[tuple[int, int]]) -> int:
    return sum(a * b for a, b in matrices)


def _deepseek(config: Any) -> dict[str, Any]:
    """What DeepSeek's later models have beside Llama's kin."""
    if not getattr(config, "kv_lora_rank", None):
        return {}
    latents = Latents(config.kv_lora_rank, config.qk_rope_head_dim, config.v_head_dim, config.q_lora_rank or 0)
    return {
        "latents": latents,
        "shared_experts": _number(config, "n_shared_experts", default=0),
        "dense_layers": _number(config, "first_k_dense_replace", default=0),
        "dense_intermediate": config.intermediate_size,
    }


def _number(config: Any, *names: str, default: int) -> int:
    """The first of these that the config has; the largest where it has one per layer."""
    found = next((value for name in names if (value := getattr(config, name, None))), default)
    return max(found) if isinstance(found, list | tuple) else found
