"""Faults in a run file as one line: where, key, value, fix."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from groupwise.errors import RunFileError
from groupwise.run import Run, Stage


def explain(error: ValidationError, raw: dict[str, Any], text: str, place: str) -> RunFileError:
    """The first fault as one line: where, key, value, fix."""
    all_faults = error.errors()
    # A list that holds a faulty table is reported as too short as well: that is no fault of its own.
    faults = [fault for fault in all_faults if fault["type"] != "too_short"] or all_faults
    fault, more = faults[0], len(faults) - 1
    path = _path_in(raw, fault["loc"])
    stages = raw.get("stages")
    single = isinstance(stages, list) and len(stages) == 1 and isinstance(stages[0], dict)
    shown = ".".join(str(part) for part in (path[2:] if single and path[:1] == ["stages"] else path))
    where = f"{place}{line_of(text, path)}"
    rest = f" (and {more} more)" if more else ""
    message = str(fault["msg"]).removeprefix("Value error, ")
    match fault["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(path[-1]), _siblings(path[:-1], raw), 1)
            fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(_siblings(path[:-1], raw))}"
            return RunFileError(f"{where}: {shown} is not a setting{rest}", fix=fix)
        case "missing":
            return RunFileError(f"{where}: {shown} is missing{rest}", fix=f"set {shown}")
        case "union_tag_invalid":
            tag, known = fault["ctx"]["tag"], fault["ctx"]["expected_tags"].replace("'", "")
            near = difflib.get_close_matches(tag, known.split(", "), 1)
            return RunFileError(
                f"{where}: {shown}.name = {tag!r} is not known{rest}",
                fix=f"did you mean {near[0]}?" if near else f"use one of {known}",
            )
        case "value_error" if "; " in message:
            what, _, fix = message.partition("; ")
            return RunFileError(f"{where}: {what}{rest}", fix=fix)
        case _:
            fix = message[0].lower() + message[1:]
            return RunFileError(f"{where}: {shown} = {fault['input']!r} won't do{rest}", fix=fix)


def _path_in(raw: Any, location: tuple[int | str, ...]) -> list[int | str]:
    """pydantic's location without the tags of unions, which are no keys of the file."""
    path: list[int | str] = []
    node = raw
    for part in location:
        if isinstance(node, Mapping) and part not in node and part == node.get("name"):
            continue
        path.append(part)
        if isinstance(node, Mapping):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            node = None
    return path


def _siblings(path: Sequence[int | str], raw: Any) -> list[str]:
    """The settings that exist where `path` points."""
    models: list[type[BaseModel]] = [Run]
    node: Any = raw
    for part in path:
        if isinstance(node, list):
            node = node[part] if isinstance(part, int) else None
        else:
            node = node[part] if isinstance(node, Mapping) else None
        if isinstance(part, int):
            continue
        annotations = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        models = [model for annotation in annotations for model in _models(annotation)]
        if isinstance(node, Mapping) and "name" in node:
            named = [m for m in models if "name" in m.model_fields and m.model_fields["name"].default == node["name"]]
            models = named or models
    names = [field for model in models for field in model.model_fields]
    return names + [field for field in Stage.model_fields if not path]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every settings class in a type."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from _models(inner)


def line_of(text: str, path: Sequence[int | str]) -> str:
    """`:LINE` of a key in the TOML text: the first line that sets its last name inside the right table, if any."""
    names = [str(part) for part in path if isinstance(part, str) and part != "stages"]
    table: list[str] = []
    fallback = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            table = [part for part in header[1].split(".") if part != "stages"]
            if table == names:
                fallback = f":{number}"
        elif names and re.match(rf"\s*{re.escape(names[-1])}\s*=", line):
            if table == names[:-1]:
                return f":{number}"
            fallback = fallback or f":{number}"
        elif len(names) > 1 and table == names[:-2] and re.match(_inline(*names[-2:]), line):
            return f":{number}"
    return fallback


def _inline(table: str, key: str) -> str:
    """What a line looks like that sets a key in a table written on one line."""
    return rf"\s*{re.escape(table)}\s*=.*\b{re.escape(key)}\s*="
