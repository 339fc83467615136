"""Writing models in the standard Hugging Face layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write the tokenizer's files so that other versions of transformers read them too."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    if settings.get("tokenizer_class") == "TokenizersBackend":  # a name that only some releases know
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    make_readable(folder)


def make_readable(folder: Path) -> None:
    """Give every file mode 0644: safetensors creates its files readable by their owner alone."""
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o644)
