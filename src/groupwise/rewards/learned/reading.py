"""What a scoring model is given to read: a record as tokens of the model's own.

A chat goes through the model's chat template, anything else is the prompt's text with the completion after it. A
completion that spells one of the model's control tokens could close its own turn and go on in another's name, so it is
not scored. What is too long is not scored either: a cut would change what is judged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from groupwise.errors import DataError
from groupwise.rewards.contract import Record
from groupwise.rewards.learned.frozen import Frozen

Input = Literal["chat", "text"]
ScoreAt = Literal["conversation", "turn"]


class Unreadable(Exception):
    """The model can't be given this record; the message says why."""


def whole(record: Record, frozen: Frozen, input: Input, end: ScoreAt) -> list[int]:
    """The ids of prompt and finished completion. Raises `Unreadable`.

    With `end` "turn" the last one is the token that ends the assistant's turn, whatever white space the template writes
    after it. Text ends with the end-of-text token.
    """
    tokenizer = frozen.tokenizer
    refuse_control_tokens(record.clean_text, frozen)
    if record.messages is None or input == "text":
        answer = [*encode(tokenizer, record.clean_text), *_end_of_text(tokenizer)]
        return _bounded([*prompt(record, frozen, input), *answer], frozen)
    messages = [*record.messages, {"role": "assistant", "content": record.clean_text}]
    text = render(messages, tokenizer, ask=False)
    if end == "conversation":
        return _bounded(encode(tokenizer, text), frozen)
    ids = encode(tokenizer, text.rstrip())
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return _bounded(ids if ids[-1] in special else [*ids, *_end_of_text(tokenizer)], frozen)


def prompt(record: Record, frozen: Frozen, input: Input) -> list[int]:
    """The ids of the prompt alone, the assistant's turn opened. Raises `Unreadable`."""
    if record.messages is not None and input == "chat":
        return encode(frozen.tokenizer, render(record.messages, frozen.tokenizer, ask=True))
    # The policy's template has written the special tokens of a chat already.
    return list(frozen.tokenizer(record.prompt, add_special_tokens=record.messages is None, verbose=False)["input_ids"])


def with_places(
    before: Sequence[int], text: str, ends: Sequence[int], frozen: Frozen
) -> tuple[list[int], tuple[int, ...]]:
    """The ids of a prompt and a text, and for each of `ends` (a number of characters of the text) the place among the
    ids of the last token that holds some of these characters. Raises `Unreadable`.
    """
    encoded = frozen.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    starts = [start for start, _ in encoded["offset_mapping"]]
    ids = _bounded([*before, *encoded["input_ids"]], frozen)
    return ids, tuple(len(before) + bisect_left(starts, end) - 1 for end in ends)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Ids of text that has the special tokens it needs."""
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def render(messages: Sequence[Mapping[str, Any]], tokenizer: Any, *, ask: bool) -> str:
    """The chat as the model's own template writes it. Raises `Unreadable`."""
    import jinja2

    try:
        return str(
            tokenizer.apply_chat_template(
                [dict(message) for message in messages], add_generation_prompt=ask, tokenize=False
            )
        )
    except (jinja2.TemplateError, TypeError, KeyError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise Unreadable(f"the model's chat template refuses it ({type(error).__name__}: {first})") from error


def check_chats(rows: Sequence[Mapping[str, Any]], frozen: Frozen, input: Input, reward: str) -> None:
    """Raise `DataError` where rows are chats and the model's template is missing or refuses the first of them."""
    chat = next((row["messages"] for row in rows if row.get("messages") is not None), None)
    if chat is None or input == "text":
        return
    try:
        render([*chat, {"role": "assistant", "content": "Yes."}], frozen.tokenizer, ask=False)
    except Unreadable as error:
        fix = 'set input = "text", or give the model\'s folder a chat template'
        raise DataError(f"reward {reward!r} can't read the rows' chats: {error}", fix=fix) from error


def refuse_control_tokens(text: str, frozen: Frozen) -> None:
    """Raise `Unreadable` for text that spells one of the model's control tokens."""
    spelled = next((token for token in frozen.special_tokens if token in text), None)
    if spelled is not None:
        raise Unreadable(f"the completion spells {spelled!r}, a control token of the model")


def _end_of_text(tokenizer: Any) -> list[int]:
    return [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]


def _bounded(ids: list[int], frozen: Frozen) -> list[int]:
    if not ids:
        raise Unreadable("there is nothing to read")
    if len(ids) > frozen.longest:
        raise Unreadable(f"it has {len(ids)} tokens and the model reads {frozen.longest} at most")
    return ids
