"""From rows to prompts: chat templates, token ids, length limits, demonstrations.

A row's `prompt` is tokenised as the tokenizer does by default, with the special tokens it puts before text. A
row's `messages` go through the chat template, which opens the assistant's turn at the end; the template
writes its own special tokens, so none are added. Token ids are made here, once: nothing later turns them into
text and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from groupwise.errors import DataError
from groupwise.tasks.chat import ChatSettings, encode_rendered, end_of_turn, render_chat
from groupwise.tasks.contract import Row
from groupwise.tasks.keyed import content_id
from groupwise.tasks.rows import checked_rows
from groupwise.types import Prompt

PLAIN = ChatSettings()
NOT_COLUMNS = {"id", "prompt", "messages"}


def render(row: Row, tokenizer: Any, chat: ChatSettings = PLAIN) -> Prompt:
    """The prompt that a checked row asks. Every column but `id`, `prompt` and `messages` stays in its
    `columns`.

    Raises `DataError` for a chat without a usable template, chat settings that a plain prompt can't honour,
    and a prompt without any token.
    """
    identity = str(row["id"]) if row.get("id") is not None else content_id(row)
    messages = _messages(row, chat, identity)
    if messages is None:
        text = row["prompt"]
        token_ids = tuple(int(token) for token in tokenizer(text)["input_ids"])
    else:
        text = render_chat(messages, tokenizer, chat)
        token_ids = encode_rendered(text, tokenizer)
    if not token_ids:
        raise DataError(f"the prompt of row {identity!r} has no token", fix="give it some text, or leave the row out")
    columns = {key: value for key, value in row.items() if key not in NOT_COLUMNS}
    return Prompt(id=identity, token_ids=token_ids, text=text, messages=messages, columns=columns)


def render_all(
    rows: Sequence[Row],
    tokenizer: Any,
    chat: ChatSettings = PLAIN,
    max_prompt_tokens: int | None = None,
    over_limit: Literal["error", "drop"] = "error",
    where: str = "the task",
) -> tuple[list[Prompt], list[str]]:
    """The prompts of all rows, in order, and notes for the user (how many rows were dropped).

    Prompts longer than `max_prompt_tokens` are an error with their count and three examples, or are dropped
    and counted. Raises `DataError` for that, for no rows, for rows that can't be rendered, and where all were
    dropped.
    """
    prompts = [render(row, tokenizer, chat) for row in checked_rows(rows, where)]
    if (limit := max_prompt_tokens) is None:
        return prompts, []
    long = [prompt for prompt in prompts if len(prompt.token_ids) > limit]
    if not long:
        return prompts, []
    examples = ", ".join(f"{prompt.id!r} ({len(prompt.token_ids)})" for prompt in long[:3])
    told = f"{len(long)} of {len(prompts)} prompts of {where} are longer than {limit} tokens: {examples}"
    if over_limit == "error":
        raise DataError(told, fix='raise prompts.max_tokens, or set prompts.over_limit = "drop"')
    if len(long) == len(prompts):
        raise DataError(f"{told}; so all would be dropped", fix="raise prompts.max_tokens")
    return [prompt for prompt in prompts if len(prompt.token_ids) <= limit], [f"{told}; dropped"]


def demonstration_tokens(
    row: Row, tokenizer: Any, chat: ChatSettings = PLAIN, *, column: str = "completion"
) -> tuple[int, ...]:
    """The tokens of a written completion, to stand after its prompt's tokens, with the token that ends an answer.

    It stands in `column` as text, or as a chat whose last message is the assistant's.

    The completion is tokenised on its own, without special tokens, so the prompt's tokens are those that
    sampling sees. After a chat it ends with the token by which the template ends the assistant's turn, else
    with the tokenizer's end-of-text token. Raises `DataError` for a row without a completion, or where there
    is no such token.
    """
    identity = row.get("id") or content_id(row)
    completion = row.get(column)
    if isinstance(completion, list | tuple) and completion and isinstance(completion[-1], Mapping):
        completion = completion[-1].get("content") if completion[-1].get("role") == "assistant" else None
    if not isinstance(completion, str):
        told = f"no `{column}`" if completion is None else f"a `{column}` that is a {type(completion).__name__}"
        raise DataError(
            f"row {identity!r} has {told}",
            fix=f'a written completion is text: columns = {{ {column} = "..." }} names its column',
        )
    is_chat = row.get("messages") is not None or chat.wrap_prompts
    stop = end_of_turn(tokenizer, chat) if is_chat else tokenizer.eos_token_id
    if stop is None:
        raise DataError("the tokenizer has no end-of-text token to end a demonstration with", fix="set its `eos_token`")
    return (*encode_rendered(completion, tokenizer), int(stop))


def first_prompt_preview(prompts: Sequence[Prompt]) -> str:
    """The first prompt as the model gets it, to be shown before anything is loaded."""
    first = prompts[0]
    return f"first of {len(prompts)} prompts ({first.id}, {len(first.token_ids)} tokens):\n{first.text}"


def _messages(row: Row, chat: ChatSettings, identity: str) -> tuple[Mapping[str, Any], ...] | None:
    """The chat to render, or None for a plain prompt."""
    messages = row.get("messages")
    if messages is None and not chat.wrap_prompts:
        if chat != PLAIN:
            named = ", ".join(sorted(chat.model_fields_set))
            raise DataError(
                f"row {identity!r} is a plain prompt, on which the chat settings ({named}) have no effect",
                fix="set wrap_prompts = true to make a chat of it, or leave those settings out",
            )
        return None
    chat_messages = [{"role": "user", "content": row["prompt"]}] if messages is None else [dict(m) for m in messages]
    if chat_messages[-1]["role"] == "assistant":
        raise DataError(
            f"the chat of row {identity!r} ends with the assistant's message, so nothing is asked",
            fix="move that message's text into a column `completion`",
        )
    if chat.system is not None and chat_messages[0]["role"] != "system":
        chat_messages.insert(0, {"role": "system", "content": chat.system})
    return tuple(chat_messages)
