"""Tiny random models in the Hugging Face layout, written where a test can load them from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from groupwise.models import tiny_char
from groupwise.models.saving import save_tokenizer


@pytest.fixture
def model_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a tiny model over characters and returns its folder: model_folder("llama", **config)."""

    def write(kind: str = "llama", folder: str = "base", **changes) -> Path:
        torch.manual_seed(0)
        tokens = tiny_char.vocabulary()
        ids = {"vocab_size": len(tokens), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
        if kind == "llama":
            sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
            heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
            model = LlamaForCausalLM(LlamaConfig(**ids | sizes | heads | {"attention_dropout": 0.2} | changes))
        else:
            model = GPT2LMHeadModel(GPT2Config(**ids | {"n_embd": 32, "n_layer": 2, "n_head": 4} | changes))
        path = tmp_path / folder
        model.save_pretrained(path)
        save_tokenizer(tiny_char.tokenizer(tokens), path)
        return path

    return write
