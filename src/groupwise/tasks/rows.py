"""What every row must be, whoever wrote it: one prompt or one chat, and an id of its own."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groupwise.errors import DataError
from groupwise.tasks.keyed import content_id


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def name_columns(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], where: str) -> list[dict[str, Any]]:
    """The rows with source columns renamed to what they are here; `columns` maps the new name to the old one.

    A column that already has the new name gives way. Where only one of `prompt` and `messages` is named, a
    column that has the other name is left out, since a row asks one thing.
    """
    asked = [name for name in ("prompt", "messages") if name in columns]
    left_out = {"prompt", "messages"} - set(asked) if len(asked) == 1 else set()
    named = []
    for number, row in enumerate(rows, start=1):
        for name, source in columns.items():
            if source not in row:
                raise DataError(
                    f"row {number} of {where} has no column {source!r}{suggestion(source, row)}, "
                    f"which `columns` names for {name!r}; it has {', '.join(sorted(map(str, row)))}",
                    fix=f'name one of these: columns = {{ {name} = "..." }}',
                )
        gone = set(columns.values()) | left_out
        kept = {key: value for key, value in row.items() if key not in gone}
        named.append(kept | {name: row[source] for name, source in columns.items()})
    return named


def checked_rows(rows: Iterable[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    """The rows as dicts, each with a string `id`; `where` names their origin in errors.

    A row without an id gets one from its content, so that it stays the same when rows are added or moved;
    rows that ask the same get `-2`, `-3` ... appended. Raises `DataError` for no rows at all, rows that are
    no mappings, rows with both or neither of `prompt` and `messages` or with the wrong type in them, and ids
    that are given twice.
    """
    checked: list[dict[str, Any]] = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise DataError(
                f"row {number} of {where} is a {type(row).__name__}, not a mapping of columns",
                fix='give rows such as {"prompt": "2+2=", "answer": "4"}',
            )
        _check_question(row, f"row {number} of {where}")
        checked.append({str(key): value for key, value in row.items()})
    if not checked:
        raise DataError(f"there are no rows in {where}", fix="give at least one row with a `prompt` or `messages`")
    return _with_ids(checked, where)


def _check_question(row: Mapping[str, Any], here: str) -> None:
    """Raise `DataError` unless the row asks exactly one thing, in a form that can be rendered."""
    prompt, messages = row.get("prompt"), row.get("messages")
    if prompt is None and messages is None:
        raise DataError(
            f"{here} has neither `prompt` nor `messages`, only {', '.join(map(str, row)) or 'no column'}",
            fix='name the column that asks: columns = { prompt = "..." }',
        )
    if prompt is not None and messages is not None:
        raise DataError(
            f"{here} has both `prompt` and `messages`",
            fix='choose one: columns = { messages = "messages" }, or prompt',
        )
    if prompt is not None and not isinstance(prompt, str):
        chat = isinstance(prompt, list) and prompt and isinstance(prompt[0], Mapping)
        raise DataError(
            f"{here} has a `prompt` that is a {type(prompt).__name__}, not text",
            fix='call a chat `messages`: columns = { messages = "prompt" }' if chat else "make it a string",
        )
    if messages is not None:
        _check_messages(messages, here)


def _check_messages(messages: Any, here: str) -> None:
    """Raise `DataError` unless this is a list of messages with a role and a content."""
    fix = 'write them as [{"role": "user", "content": "..."}]'
    if not isinstance(messages, list | tuple) or not messages:
        raise DataError(f"{here} has `messages` that are not a list with at least one message", fix=fix)
    for message in messages:
        if not (isinstance(message, Mapping) and isinstance(message.get("role"), str) and "content" in message):
            raise DataError(f"{here} has a message without `role` or `content`: {str(message)[:60]!r}", fix=fix)


def _with_ids(rows: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """The rows with `id` first, as strings; see `checked_rows`."""
    given = Counter(str(row["id"]) for row in rows if row.get("id") is not None)
    twice = [identity for identity, count in given.items() if count > 1]
    if twice:
        raise DataError(
            f"{len(twice)} ids are given to more than one row of {where}, {twice[0]!r} for one",
            fix="give every row an id of its own, or leave the column `id` out",
        )
    used, seen, named = set(given), Counter[str](), []
    for row in rows:
        identity = None if row.get("id") is None else str(row["id"])
        if identity is None:
            base = content_id(row)
            seen[base] += 1
            identity = base if seen[base] == 1 else f"{base}-{seen[base]}"
            if identity in used:
                raise DataError(
                    f"the id {identity!r} of {where} is also the one derived for another row", fix="change it"
                )
            used.add(identity)
        named.append({"id": identity, **{key: value for key, value in row.items() if key != "id"}})
    return named
