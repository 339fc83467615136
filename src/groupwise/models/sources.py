"""What a model's name stands for: a local folder, a built-in model or a model on the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from groupwise.errors import ModelError
from groupwise.models.builtin import PREFIX, builtin_folder

ADAPTER_CONFIG = "adapter_config.json"
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
)


def resolve(name: str, say: Callable[[str], None] = print) -> str:
    """An absolute folder (built-in models are made on first use) or a hub name. Raises `ModelError`."""
    if name.startswith(PREFIX):
        return str(builtin_folder(name.removeprefix(PREFIX), say))
    path = Path(name).expanduser()
    if path.is_dir():
        check_folder(str(path))
        return str(path.absolute())
    if path.is_file():
        raise ModelError(f"model {name} is a file", fix="give the folder that holds it")
    parent_exists = path.parent.is_dir() and str(path.parent) != "."
    if not HUB_NAME.fullmatch(name) or name.startswith(".") or parent_exists:
        raise ModelError(f"model folder {name} doesn't exist", fix=_suggest(path))
    return name


def _suggest(path: Path) -> str:
    siblings = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, siblings, n=1)
    if near:
        return f"did you mean {path.parent / near[0]}?"
    return "give a folder with config.json, a name on the Hugging Face hub, or builtin:NAME"


def check_folder(source: str) -> None:
    """Raises `ModelError` for a local folder that holds no model. Hub names pass."""
    folder = Path(source)
    if not folder.is_dir() or (folder / "config.json").is_file() or is_adapter(folder):
        return
    inner = [entry for entry in sorted(folder.iterdir()) if (entry / "config.json").is_file() or is_adapter(entry)]
    raise ModelError(
        f"model folder {source} has neither config.json nor {ADAPTER_CONFIG}",
        fix=f"did you mean {inner[-1]}?" if inner else "give a folder in the Hugging Face layout",
    )


def check_hub(source: str) -> None:
    """Raises `ModelError` for a hub name that is neither in the local cache nor on the hub. Folders pass.

    It asks once: transformers would try for most of a minute before it says that there is no network.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    if Path(source).is_dir() or isinstance(try_to_load_from_cache(source, "config.json"), str):
        return
    try:
        HfApi().model_info(source, timeout=10)
    except Exception as error:  # the hub's client and the HTTP library below it raise many kinds
        raise ModelError(
            f"model {source} is no folder and can't be had from the Hugging Face hub ({first_line(error)})",
            fix="check the name, the connection and your access (hf auth login), or give a local folder",
        ) from error


def is_adapter(source: str | Path) -> bool:
    """Whether this is a folder that holds an adapter instead of a whole model."""
    return (Path(source) / ADAPTER_CONFIG).is_file()


def base_of(folder: str | Path) -> str:
    """The name or folder of the model that an adapter was trained on. Raises `ModelError` where none is
    recorded."""
    path = Path(folder) / ADAPTER_CONFIG
    try:
        base = json.loads(path.read_text()).get("base_model_name_or_path")
    except json.JSONDecodeError as error:
        raise ModelError(f"{path} isn't valid JSON ({error})", fix="save the adapter again") from error
    if not base:
        raise ModelError(
            f"the adapter {folder} doesn't say which model it belongs to",
            fix=f'set "base_model_name_or_path" in {path}',
        )
    return str(base)


def tokenizer_source(source: str) -> str:
    """Where the tokenizer of a resolved model is: with an adapter, or with the adapter's base.

    Raises `ModelError` for a local folder without one: transformers would make up an empty tokenizer.
    """
    folder = Path(source)
    if not folder.is_dir() or any((folder / file).is_file() for file in TOKENIZER_FILES):
        return source
    if is_adapter(folder):
        return tokenizer_source(resolve(base_of(folder)))
    raise ModelError(
        f"model folder {source} has no tokenizer (none of {', '.join(TOKENIZER_FILES)})",
        fix="copy the tokenizer's files into it, or save the tokenizer there with save_pretrained",
    )


def first_line(error: BaseException) -> str:
    """The start of an error's message, short enough to stand in another's."""
    return (str(error).strip().split("\n")[0] or "no reason given")[:300]
