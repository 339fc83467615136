"""Chat templates: which one, with which switches, and how it ends an assistant's turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.tasks.rows import suggestion

OURS = (
    "messages",
    "add_generation_prompt",
    "continue_final_message",
    "tokenize",
    "chat_template",
    "return_dict",
)


class ChatSettings(Settings):
    """How a chat becomes the text that the model reads."""

    system: str | None = None
    """A system message put before chats that have none of their own."""
    wrap_prompts: bool = False
    """Make a chat of each plain `prompt`, as the user's only message."""
    template: str | None = None
    """A file with a Jinja chat template, used instead of the tokenizer's own."""
    template_arguments: dict[str, Any] = Field(default_factory=dict)
    """Switches that the template reads: `{ enable_thinking = false }`."""

    @field_validator("template_arguments")
    @classmethod
    def _not_ours(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        for name in arguments:
            if name in OURS:
                raise DataError(f"template_arguments names {name!r}, which is set for you", fix="leave it out")
        return arguments


def chat_template(tokenizer: Any, chat: ChatSettings) -> str:
    """The Jinja text of the template in use. Raises `DataError` where there is none, with what can be
    done."""
    if chat.template is not None:
        try:
            text = Path(chat.template).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = f"the chat template {chat.template!r} can't be read ({type(error).__name__})"
            raise DataError(reason, fix="correct the path `template`") from error
    else:
        text = _own_template(tokenizer)
    for name in chat.template_arguments:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            known = sorted(set(re.findall(r"[a-z][a-z_]+", text)))
            raise DataError(
                f"the chat template does not read {name!r}{suggestion(name, known)}",
                fix="correct `template_arguments`",
            )
    return text


def render_chat(messages: Sequence[Mapping[str, Any]], tokenizer: Any, chat: ChatSettings, ask: bool = True) -> str:
    """The chat as text, with the assistant's turn opened at its end where `ask` is set."""
    import jinja2

    template = chat_template(tokenizer, chat)
    try:
        return tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            chat_template=template,
            add_generation_prompt=ask,
            tokenize=False,
            **chat.template_arguments,
        )
    except (jinja2.TemplateError, TypeError, KeyError) as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise DataError(
            f"the chat template refuses the chat {str(messages[0])[:60]!r}... ({reason[:200]})",
            fix="change the messages or the system prompt, or give another `template`",
        ) from error


def encode_rendered(text: str, tokenizer: Any) -> tuple[int, ...]:
    """Token ids of text that already has the special tokens it needs."""
    return tuple(int(token) for token in tokenizer(text, add_special_tokens=False)["input_ids"])


def end_of_turn(tokenizer: Any, chat: ChatSettings) -> int | None:
    """The token that ends an assistant's turn: the first special token that the template puts after an
    answer.

    Where it puts none, the tokenizer's end-of-text token; None where there is neither.
    """
    marker = "ANSWER"
    text = render_chat(
        [{"role": "user", "content": "QUESTION"}, {"role": "assistant", "content": marker}],
        tokenizer,
        chat,
        ask=False,
    )
    after = encode_rendered(text.rpartition(marker)[2], tokenizer)
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    return next((token for token in after if token in special), tokenizer.eos_token_id)


def _own_template(tokenizer: Any) -> str:
    """The tokenizer's own template; of several, the one named `default`."""
    template = tokenizer.chat_template
    if isinstance(template, Mapping):
        template = template.get("default")
    if template is None:
        raise DataError(
            "the rows are chats and the tokenizer has no chat template",
            fix="give a Jinja file as `template`, use an instruct model, or give the rows a plain `prompt`",
        )
    return template
