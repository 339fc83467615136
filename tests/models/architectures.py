"""Tiny random decoders of every kind that must run on packed groups, and plain ways to compute what packing computes.

Weights are ten times larger than usual, so that attention is far from uniform and a wrong mask or position shows;
sliding windows are shorter than a prompt with its completion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from groupwise.engines.contract import Request, SamplingParams
from groupwise.engines.torch import TorchEngine
from groupwise.models.forward import Forward
from groupwise.models.loading import LoadedModel
from groupwise.models.policy import Policy
from groupwise.types import Completion, DrawKey, Group, Prompt, Segment

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,
}
GPT2_SIZES = {
    "vocab_size": VOCABULARY,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,
}
MOE = {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 8}
SOFTCAPS = {"attn_logit_softcapping": 20.0, "final_logit_softcapping": 10.0}

ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**SIZES)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES, head_dim=16)),
    "qwen3-moe": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**SIZES, **MOE)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SIZES)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**SIZES, **GEMMA, **SOFTCAPS)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**SIZES, **GEMMA)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**SIZES, sliding_window=8)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**SIZES)),
    "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**SIZES)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(hf.SmolLM3Config(**SIZES)),
    "granite": lambda: hf.GraniteForCausalLM(hf.GraniteConfig(**SIZES, attention_multiplier=0.2, logits_scaling=4.0)),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**SIZES, logit_scale=0.5)),
}

PROMPT_LENGTHS = (7, 3, 11, 7)
COMPLETION_LENGTHS = ((5, 0, 9), (1,), (4, 12, 2), (6, 6, 0, 3))
"""Ragged and empty completions, a single one of one token, two prompts of the same length."""


def build(architecture: str, dtype: torch.dtype = torch.float32) -> Any:
    """The model in eval mode with eager attention, the same at every call."""
    torch.manual_seed(0)
    model = ARCHITECTURES[architecture]().to(dtype).eval()
    model.set_attn_implementation("eager")
    if dtype == torch.float64 and architecture == "qwen3-moe":
        model.set_experts_implementation("eager")  # the fused one multiplies matrices in float32 at most
    return model


def policy_of(model: Any, stop_ids: Sequence[int] = (2,)) -> Policy:
    """A policy of a model that was never in a folder; it has no tokenizer."""
    loaded = LoadedModel(
        model,
        None,
        None,
        tuple(stop_ids),
        "tiny",
        torch.device("cpu"),
        torch.float32,
        (),  # type: ignore[arg-type]
    )
    return Policy(loaded, Forward(model, torch.float32))


def key_of(prompt: str, sample: int, seed: int = 0) -> DrawKey:
    return DrawKey(seed=seed, purpose="train", stage=0, prompt_id=prompt, visit=0, sample=sample)


def random_ids(length: int, generator: torch.Generator) -> tuple[int, ...]:
    return tuple(torch.randint(3, VOCABULARY, (length,), generator=generator).tolist())


def group_of(name: str, prompt: Sequence[int], completions: Sequence[Completion]) -> Group:
    return Group(name, Prompt(name, tuple(prompt), ""), tuple(completions), (None,) * len(completions))


def random_groups(
    prompts: Sequence[int] = PROMPT_LENGTHS, completions: Sequence[Sequence[int]] = COMPLETION_LENGTHS, seed: int = 1
) -> list[Group]:
    """Groups of these lengths with random tokens: unlike sampled ones they have gradients far from zero."""
    generator = torch.Generator().manual_seed(seed)
    return [
        group_of(
            f"g{number}",
            random_ids(prompt, generator),
            [Completion((Segment(random_ids(length, generator), None),), "stop") for length in lengths],
        )
        for number, (prompt, lengths) in enumerate(zip(prompts, completions, strict=True))
    ]


def sample_groups(
    policy: Policy, prompts: Sequence[int], samples: Sequence[int], temperature: float, max_rows: int
) -> list[Group]:
    """Groups sampled by the in-process engine for random prompts of these lengths, each row with its own limit."""
    generator = torch.Generator().manual_seed(2)
    groups = [group_of(f"g{number}", random_ids(length, generator), ()) for number, length in enumerate(prompts)]
    places = [(number, sample) for number, count in enumerate(samples) for sample in range(count)]
    engine = TorchEngine(max_rows=max_rows)
    engine.load(policy, version=0)
    engine.submit(
        [
            Request(
                id,
                groups[number].prompt.token_ids,
                SamplingParams(temperature, max_tokens=4 + 5 * id % 13),
                key_of(groups[number].id, sample),
            )
            for id, (number, sample) in enumerate(places)
        ]
    )
    finished = dict(engine.collect())
    completions: list[list[Completion]] = [[] for _ in groups]
    for id, (number, _) in enumerate(places):
        completions[number].append(finished[id])
    return [
        replace(group, completions=tuple(own), scores=(None,) * len(own))
        for group, own in zip(groups, completions, strict=True)
    ]


def plain_log_probs(model: Any, groups: Sequence[Group], temperature: float) -> Tensor:
    """Log-probs of all completion tokens in order, each completion run alone behind its prompt by the eager model."""
    pieces = [torch.zeros(0, dtype=model.dtype)]
    for group in groups:
        start = len(group.prompt.token_ids)
        for completion in group.completions:
            row = torch.tensor([*group.prompt.token_ids, *completion.token_ids])
            logits = model(input_ids=row[None], use_cache=False).logits[0, start - 1 : -1]
            pieces.append((logits / temperature).log_softmax(-1).gather(1, row[start:, None])[:, 0])
    return torch.cat(pieces)


def gradients(model: Any, loss: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter that the loss reaches, by name; the model's own are cleared."""
    model.zero_grad(set_to_none=True)
    loss.backward()
    found = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


def relative_difference(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """||a - b|| / ||b|| over all parameters."""
    assert actual.keys() == expected.keys()
    difference = torch.stack([(actual[name] - value).square().sum() for name, value in expected.items()]).sum()
    norm = torch.stack([value.square().sum() for value in expected.values()]).sum()
    assert norm > 1e-4, "a gradient so small shows nothing"
    return float((difference / norm).sqrt())
