"""A Llama of 0.8 million parameters over single characters, untrained, for tasks that start from nothing.

It learns one-digit sums from scratch in seconds of CPU time, which makes it the model of quick experiments
and of the learning tests. Weights come from a fixed seed, so that every machine begins with the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from groupwise.models.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

NAME = "tiny-char"
SEED = 20240203
PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
CHARACTERS = "0123456789+-*/=()<>.,:;?!'\"_ \nabcdefghijklmnopqrstuvwxyz"


def build(folder: Path, say: Callable[[str], None]) -> None:
    """Fill an empty folder with the model and its tokenizer."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    from groupwise.models.saving import make_readable, save_tokenizer

    say(f"making {NAME} in {folder.parent} (3 MB, once)")
    tokens = vocabulary()
    config = LlamaConfig(
        initializer_range=0.06,  # with the usual 0.02 so small a model takes three times the steps to learn anything
        vocab_size=len(tokens),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=tokens[PAD],
        bos_token_id=None,
        eos_token_id=tokens[EOS],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(pad_token_id=tokens[PAD], eos_token_id=tokens[EOS])
    with quiet():
        model.save_pretrained(folder)
    save_tokenizer(tokenizer(tokens), folder)
    make_readable(folder)


def vocabulary() -> dict[str, int]:
    """Every token and its id: the special tokens, then one per character."""
    return {token: i for i, token in enumerate([PAD, EOS, UNKNOWN, *CHARACTERS])}


def tokenizer(tokens: dict[str, int]) -> PreTrainedTokenizerFast:
    """One token per character, nothing added around them; other characters become `<unk>`."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(tokens, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([PAD, EOS, UNKNOWN])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
