"""Tiny random models over characters that score, saved as folders, and records for them.

The padding token is the end-of-text token and a turn of the chat ends with it, so a score that is read by the value of
a token is read at the wrong place. Weights are ten times larger than usual, so that every token matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from groupwise.models import tiny_char
from groupwise.models.classifiers import Judges, export_judge
from groupwise.models.critic import Critic
from groupwise.models.loading import LoadedModel
from groupwise.models.saving import plain_attention
from groupwise.models.settings import CriticSettings
from groupwise.rewards.contract import Record
from groupwise.rewards.records import record_for
from groupwise.types import Completion, Prompt, Segment

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
VOCABULARY = tiny_char.vocabulary()
EOS = VOCABULARY[tiny_char.EOS]
SIZES: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "pad_token_id": EOS,
    "bos_token_id": None,
    "eos_token_id": EOS,
    "initializer_range": 0.2,
}
LLAMA = SIZES | {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
GPT2 = SIZES | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}


def tokenizer(*, template: str | None = TEMPLATE, side: str = "right") -> Any:
    """One token per character; padding is end-of-text."""
    made = tiny_char.tokenizer(VOCABULARY)
    made.pad_token, made.padding_side, made.chat_template = tiny_char.EOS, side, template
    return made


def save(model: Any, folder: Path, own: Any = None) -> Path:
    """Write the model and a tokenizer into a folder."""
    model.save_pretrained(folder)
    (own or tokenizer()).save_pretrained(folder)
    return folder


def build(kind: str, labels: int = 1) -> Any:
    """A model of transformers' class for Llama, Qwen3, Gemma 3 or GPT-2, always the same."""
    torch.manual_seed(0)
    family, config = {
        "llama": ("Llama", hf.LlamaConfig(**LLAMA, num_labels=labels)),
        "qwen3": ("Qwen3", hf.Qwen3Config(**LLAMA, head_dim=8, num_labels=labels)),
        "gemma3": ("Gemma3Text", hf.Gemma3TextConfig(**LLAMA, head_dim=8, sliding_window=8, num_labels=labels)),
        "gpt2": ("GPT2", hf.GPT2Config(**GPT2, num_labels=labels)),
    }[kind.partition(" ")[0]]
    head = {"sequence": "ForSequenceClassification", "token": "ForTokenClassification", "causal": "ForCausalLM"}
    if family == "GPT2" and kind.endswith("causal"):
        return hf.GPT2LMHeadModel(config).eval()
    return getattr(hf, family + head[kind.partition(" ")[2]])(config).eval()


def record_of(text: str, *, asked: str = "say it.", chat: bool = True, ends: bool = True) -> Record:
    """The record of a completion of single characters that stopped."""
    own = tokenizer()
    ids = (*own(text, add_special_tokens=False)["input_ids"], EOS)
    messages = ({"role": "user", "content": asked},) if chat else None
    shown = f"user: {asked}<eos>\nassistant: " if chat else asked
    prompt = Prompt("p", (1,), shown, messages)
    completion = Completion((Segment(tuple(ids), None),), "stop")
    return record_for(prompt, completion, own, [EOS], "g", with_token_ends=ends)


def exported(judges: Judges, folder: Path) -> Callable[[Sequence[int]], list[float]]:
    """Export a critic as a model that judges; returns what the critic itself says after each token of a row."""
    model, own = build("llama causal"), tokenizer()
    loaded = LoadedModel(model, None, own, (EOS,), "tiny", torch.device("cpu"), torch.float32, ())
    critic = Critic.build(CriticSettings(), loaded, seed=0)
    torch.manual_seed(1)
    torch.nn.init.normal_(critic.head.weight)
    if judges == "steps":
        torch.nn.init.constant_(critic.head.bias, 0.5)
    export_judge(critic, loaded, judges, folder)

    def says(ids: Sequence[int]) -> list[float]:
        with torch.no_grad(), plain_attention(critic.backbone):
            hidden = critic.backbone(input_ids=torch.tensor([list(ids)]), use_cache=False).last_hidden_state[0]
            return critic.head(hidden)[:, 0].tolist()

    return says
