"""A tiny random policy to sample from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from groupwise.models.forward import Forward
from groupwise.models.loading import LoadedModel
from groupwise.models.policy import Policy


@pytest.fixture
def make_policy() -> Callable[..., Policy]:
    """make_policy(stop_ids, seed, initializer_range): a Llama over 50 tokens; it has no tokenizer."""

    def make(stop_ids=(2,), seed=0, initializer_range=0.2) -> Policy:
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=initializer_range,
        )
        model = LlamaForCausalLM(config).eval()
        device, dtype = torch.device("cpu"), torch.float32
        loaded = LoadedModel(model, None, None, tuple(stop_ids), "tiny", device, dtype, ())  # type: ignore[arg-type]
        return Policy(loaded, Forward(model, dtype))

    return make
