"""Which model is trained, in what precision, and with which adapters. Light to import: no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from groupwise.settings import Settings


class LoraSettings(Settings):
    """Low-rank adapters (Hu et al., arXiv:2106.09685) on frozen weights: W x + (alpha / rank) B A x.

    There is no dropout: log-probs of sampling and training must be those of the same distribution.
    """

    rank: int = Field(default=16, ge=1)
    """Columns of B and rows of A."""
    alpha: float = Field(default=32.0, gt=0)
    """The adapter's output is scaled by alpha / rank."""
    target_modules: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers that get an adapter: all linear ones but the output layer, or names such as `["q_proj",
    "v_proj"]`."""


class ModelSettings(Settings):
    """The model that is trained."""

    name: Annotated[str, Field(min_length=1)]
    """A local folder, a name on the Hugging Face hub, or `builtin:NAME`. A folder may hold a LoRA adapter."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the forward pass computes in; weights and optimiser stay in float32. `auto`: bfloat16 where the
    device has it, else float32."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    """`auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:N`."""
    lora: LoraSettings | None = None
    """Train adapters instead of all weights."""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """Compute each layer again in the backward pass instead of keeping its activations: less memory, more time.
    `auto`: only where the largest update is predicted not to fit; decided once per run."""


class CriticSettings(Settings):
    """The critic, for algorithms that need one."""

    start: str = "policy"
    """`policy`: a copy of the policy's weights; `fresh`: its architecture with random weights; or a folder or hub name
    of a sequence classification model with one label, a reward model for instance."""
    learning_rate: float = Field(default=1e-5, gt=0)
    """Of the critic's own AdamW, whose other settings are the policy's."""
