"""From a prompt and a completion to the record that rewards are given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from groupwise.rewards.contract import Record
from groupwise.types import Completion, Prompt

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What decoders write for the bytes of a character that isn't complete."""


class Decoder(Protocol):
    """The part of a tokenizer that records need."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """The text of these ids."""


def record_for(
    prompt: Prompt,
    completion: Completion,
    tokenizer: Decoder,
    stop_ids: Collection[int],
    group_id: str,
    *,
    with_token_ends: bool = False,
) -> Record:
    """The record of one completion.

    Only the terminator (one of `stop_ids`, as the last token) is left out of `text`: other special tokens,
    such as tags of a thinking block, may be what a format reward looks for. `clean_text` has none of them.
    `with_token_ends` adds where in `text` each token ends, which takes two short decodings a token.
    """
    ids = completion.token_ids
    said = list(ids[:-1] if ids and ids[-1] in stop_ids else ids)
    text = _decode(said, tokenizer)
    ends = token_ends(said, text, tokenizer) if with_token_ends else None
    return Record(
        group_id=group_id,
        prompt_id=prompt.id,
        prompt=prompt.text,
        messages=prompt.messages,
        columns=prompt.columns,
        text=text,
        clean_text=tokenizer.decode(said, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        token_ids=ids,
        finish_reason=completion.finish_reason,
        token_ends=None if ends is None else (*ends, *[len(text)] * (len(ids) - len(said))),
    )


def token_ends(ids: Sequence[int], text: str, tokenizer: Decoder) -> list[int]:
    """For each of the ids how many characters of `text`, which they decode to, are complete with it.

    A token's text depends on the token before it (some decoders drop a first space), and a character may take several
    tokens, so what is decoded is a window: the tokens of the last complete characters and what came since.
    """
    ends: list[int] = []
    start = read = known = 0  # the window's first token, the first one after its complete characters, their number
    for index in range(len(ids)):
        before, now = _decode(ids[start:read], tokenizer), _decode(ids[start : index + 1], tokenizer)
        new = len(now.rstrip(UNFINISHED)) - len(before)
        ends.append(min(known + max(new, 0), len(text)))
        if now and not now.endswith(UNFINISHED):
            start, read, known = read, index + 1, ends[-1]
    if ends:
        ends[-1] = len(text)
    return ends


def _decode(ids: Sequence[int], tokenizer: Decoder) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
