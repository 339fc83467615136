"""Shapes of common model families by name, and of any model by its config, without its weights.

Sizes are those of the published config.json files. Names leave out the organisation and what doesn't change the shape:
`Qwen/Qwen2.5-7B-Instruct` is qwen2.5-7b. Gemma 3 is the text model alone, DeepSeek-V3 has no layer that predicts
further ahead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupwise.errors import ModelError
from groupwise.planning.shape import FAMILIES, Latents, Shape


@dataclass(frozen=True)
class Model:
    """A model's name and sizes."""

    name: str
    nominal: int
    """Parameters as people call it: 70 billion of llama-70b."""
    shape: Shape

    @property
    def parameters(self) -> int:
        """The exact number."""
        return self.shape.parameters


Sizes = tuple[int, int, int, int, int, int, int, bool]
"""Layers, hidden size, heads, heads of keys, width of a head, of the MLP, vocabulary; output layer tied."""

LLAMA: Mapping[str, Sizes] = {
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000, False),
    "llama-2-13b": (40, 5120, 40, 40, 128, 13824, 32000, False),
    "llama-2-70b": (80, 8192, 64, 8, 128, 28672, 32000, False),
    "llama-3-8b": (32, 4096, 32, 8, 128, 14336, 128256, False),
    "llama-3-70b": (80, 8192, 64, 8, 128, 28672, 128256, False),
    "llama-3.1-405b": (126, 16384, 128, 8, 128, 53248, 128256, False),
    "llama-3.2-1b": (16, 2048, 32, 8, 64, 8192, 128256, True),
    "llama-3.2-3b": (28, 3072, 24, 8, 128, 8192, 128256, True),
    "deepseek-math-7b": (30, 4096, 32, 32, 128, 11008, 102400, False),
    "smollm2-135m": (30, 576, 9, 3, 64, 1536, 49152, True),
    "smollm2-360m": (32, 960, 15, 5, 64, 2560, 49152, True),
    "smollm2-1.7b": (24, 2048, 32, 32, 64, 8192, 49152, True),
}
MISTRAL: Mapping[str, Sizes] = {"mistral-7b": (32, 4096, 32, 8, 128, 14336, 32000, False)}
MISTRAL_UNBOUND: Mapping[str, Sizes] = {
    "mistral-7b-v0.2": (32, 4096, 32, 8, 128, 14336, 32000, False),
    "mistral-7b-v0.3": (32, 4096, 32, 8, 128, 14336, 32768, False),
}
"""Without a window."""
QWEN2: Mapping[str, Sizes] = {
    "qwen2.5-0.5b": (24, 896, 14, 2, 64, 4864, 151936, True),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 128, 8960, 151936, True),
    "qwen2.5-3b": (36, 2048, 16, 2, 128, 11008, 151936, True),
    "qwen2.5-7b": (28, 3584, 28, 4, 128, 18944, 152064, False),
    "qwen2.5-14b": (48, 5120, 40, 8, 128, 13824, 152064, False),
    "qwen2.5-32b": (64, 5120, 40, 8, 128, 27648, 152064, False),
    "qwen2.5-72b": (80, 8192, 64, 8, 128, 29568, 152064, False),
}
QWEN3: Mapping[str, Sizes] = {
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072, 151936, True),
    "qwen3-1.7b": (28, 2048, 16, 8, 128, 6144, 151936, True),
    "qwen3-4b": (36, 2560, 32, 8, 128, 9728, 151936, True),
    "qwen3-8b": (36, 4096, 32, 8, 128, 12288, 151936, False),
    "qwen3-14b": (40, 5120, 40, 8, 128, 17408, 151936, False),
    "qwen3-32b": (64, 5120, 64, 8, 128, 25600, 151936, False),
}
QWEN3_MOE: Mapping[str, Sizes] = {"qwen3-30b-a3b": (48, 2048, 32, 4, 128, 768, 151936, False)}
GEMMA2: Mapping[str, Sizes] = {
    "gemma-2-2b": (26, 2304, 8, 4, 256, 9216, 256000, True),
    "gemma-2-9b": (42, 3584, 16, 8, 256, 14336, 256000, True),
    "gemma-2-27b": (46, 4608, 32, 16, 128, 36864, 256000, True),
}
GEMMA3: Mapping[str, Sizes] = {
    "gemma-3-1b": (26, 1152, 4, 1, 256, 6912, 262144, True),
    "gemma-3-4b": (34, 2560, 8, 4, 256, 10240, 262208, True),
    "gemma-3-12b": (48, 3840, 16, 8, 256, 15360, 262208, True),
    "gemma-3-27b": (62, 5376, 32, 16, 128, 21504, 262208, True),
}
PHI3: Mapping[str, Sizes] = {
    "phi-3-mini-3.8b": (32, 3072, 32, 32, 96, 8192, 32064, False),
    "phi-3-medium-14b": (40, 5120, 40, 10, 128, 17920, 32064, False),
    "phi-4-mini-3.8b": (32, 3072, 24, 8, 128, 8192, 200064, True),
    "phi-4-14b": (40, 5120, 40, 10, 128, 17920, 100352, False),
}
GPT2: Mapping[str, Sizes] = {
    "gpt2-124m": (12, 768, 12, 12, 64, 3072, 50257, True),
    "gpt2-medium-355m": (24, 1024, 16, 16, 64, 4096, 50257, True),
    "gpt2-large-774m": (36, 1280, 20, 20, 64, 5120, 50257, True),
    "gpt2-xl-1.6b": (48, 1600, 25, 25, 64, 6400, 50257, True),
}
DEEPSEEK: Mapping[str, Sizes] = {"deepseek-v3-671b": (61, 7168, 128, 128, 192, 2048, 129280, False)}

KINDS: tuple[tuple[str, Mapping[str, Sizes], dict[str, Any]], ...] = (
    ("llama", LLAMA, {}),
    ("mistral", MISTRAL, {"window": 4096}),
    ("mistral", MISTRAL_UNBOUND, {}),
    ("qwen2", QWEN2, {}),
    ("qwen3", QWEN3, {}),
    ("qwen3_moe", QWEN3_MOE, {"experts": 128, "experts_per_token": 8}),
    ("gemma2", GEMMA2, {"window": 4096, "softcap": True}),
    ("gemma3_text", GEMMA3, {"window": 1024}),
    ("phi3", PHI3, {}),
    ("gpt2", GPT2, {"positions": 1024, "stepwise_activation": True}),
    (
        "deepseek_v3",
        DEEPSEEK,
        {
            "experts": 256,
            "experts_per_token": 8,
            "shared_experts": 1,
            "dense_layers": 3,
            "dense_intermediate": 18432,
            "latents": Latents(keys=512, rotary=64, values=128, queries=1536),
        },
    ),
)
"""`model_type`, models, and what they share beside what makes the family."""

SHORT = {
    "llama-1b": "llama-3.2-1b",
    "llama-3b": "llama-3.2-3b",
    "llama-7b": "llama-2-7b",
    "llama-8b": "llama-3-8b",
    "llama-13b": "llama-2-13b",
    "llama-70b": "llama-3-70b",
    "llama-405b": "llama-3.1-405b",
    "llama-3-405b": "llama-3.1-405b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.3-70b": "llama-3-70b",
    "deepseekmath-7b": "deepseek-math-7b",
    "phi-3.5-mini": "phi-3-mini-3.8b",
    "phi-3-mini": "phi-3-mini-3.8b",
    "phi-3-medium": "phi-3-medium-14b",
    "phi-4-mini": "phi-4-mini-3.8b",
    "phi-4": "phi-4-14b",
    "gpt2": "gpt2-124m",
    "gpt2-medium": "gpt2-medium-355m",
    "gpt2-large": "gpt2-large-774m",
    "gpt2-xl": "gpt2-xl-1.6b",
    "deepseek-v3": "deepseek-v3-671b",
    "deepseek-r1": "deepseek-v3-671b",
}
"""Other names of the same shapes."""

NOISE = re.compile(
    r"^meta-|(?<=^qwen2\.5)-(math|coder)"
    r"|-(instruct|it|chat|hf|base|thinking|rl|zero|bf16|v0\.\d|4k|8k|128k|\d{4})(?=-|$)"
)
"""Parts of a hub name that don't change the shape."""

NOMINAL = re.compile(r"-([\d.]+)([bm])(?=-|$)")


def nominal_parameters(name: str) -> int | None:
    """Parameters as a name has them, 70 billion of `llama-70b`; None where it has none."""
    found = NOMINAL.search(name.lower())
    return round(float(found[1]) * (1e9 if found[2] == "b" else 1e6)) if found else None


def _models() -> dict[str, Model]:
    models = {}
    for family, table, shared in KINDS:
        differs = {key: value for key, value in FAMILIES.get(family, {}).items() if key != "learned_positions"}
        for name, sizes in table.items():
            nominal = nominal_parameters(name)
            assert nominal is not None, name
            models[name] = Model(name, nominal, Shape(*sizes, **differs | shared))
    return models


MODELS: Mapping[str, Model] = _models()
"""The built-in models by name."""


def find(name: str) -> Model:
    """The model of this name: a folder or a config.json, a hub name whose config is in the local cache, or a built-in
    one.

    Raises `ModelError` for names that are none of these, with those that are close.
    """
    path = Path(name).expanduser()
    if name and path.exists():
        return _read(name, path)
    if (cached := _cached(name)) is not None:
        return _read(name, cached)
    plain = name.lower().removeprefix("builtin:").rsplit("/", 1)[-1]
    if (model := _built_in(plain)) is not None:
        return model
    near = difflib.get_close_matches(NOISE.sub("", plain), [*MODELS, *SHORT], n=3)
    close = f"did you mean {' or '.join(near)}? Or give" if near else "give a name such as qwen2.5-7b,"
    raise ModelError(f"model {name!r} is unknown and not in the local cache", fix=f"{close} a folder or a config.json")


def _built_in(plain: str) -> Model | None:
    """The built-in model that a name without organisation stands for."""
    while plain not in MODELS and plain not in SHORT:
        shorter = NOISE.sub("", plain, count=1)
        if shorter == plain:
            return None
        plain = shorter
    return MODELS[SHORT.get(plain, plain)]


def _cached(name: str) -> Path | None:
    """Where the config of a hub name, `organisation/model`, is if it was ever downloaded."""
    if "/" not in name:
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # no name that a hub could have
        return None
    return Path(found) if isinstance(found, str) else None


def _read(name: str, path: Path) -> Model:
    """A model from its config."""
    from transformers import AutoConfig

    if not (path if path.is_file() else path / "config.json").is_file():
        raise ModelError(f"model folder {name} has no config.json", fix="give a folder in the Hugging Face layout")
    try:
        shape = Shape.of(AutoConfig.from_pretrained(path))
    except (OSError, ValueError, AttributeError) as error:  # no JSON, an unknown model_type, or no decoder
        reason = str(error).splitlines()[0]
        raise ModelError(f"config of {name} can't be read ({reason})", fix="give that of a decoder") from error
    sizes = {"layers": shape.layers, "hidden size": shape.hidden, "heads": shape.heads, "vocabulary": shape.vocabulary}
    for what, size in sizes.items():
        if size < 1:
            raise ModelError(f"config of {name} has {what} {size}", fix="give that of a decoder")
    return Model(name, nominal_parameters(Path(name).name) or shape.parameters, shape)
