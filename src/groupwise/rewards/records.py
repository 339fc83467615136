"""From a prompt and a completion to the record that rewards are given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from groupwise.rewards.contract import Record
from groupwise.types import Completion, Prompt


class Decoder(Protocol):
    """The part of a tokenizer that records need."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """The text of these ids."""


def record_for(
    prompt: Prompt, completion: Completion, tokenizer: Decoder, stop_ids: Collection[int], group_id: str
) -> Record:
    """The record of one completion.

    Only the terminator (one of `stop_ids`, as the last token) is left out of `text`: other special tokens,
    such as tags of a thinking block, may be what a format reward looks for. `clean_text` has none of them.
    """
    ids = completion.token_ids
    said = list(ids[:-1] if ids and ids[-1] in stop_ids else ids)
    return Record(
        group_id=group_id,
        prompt_id=prompt.id,
        prompt=prompt.text,
        messages=prompt.messages,
        columns=prompt.columns,
        text=tokenizer.decode(said, skip_special_tokens=False, clean_up_tokenization_spaces=False),
        clean_text=tokenizer.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        token_ids=ids,
        finish_reason=completion.finish_reason,
    )
