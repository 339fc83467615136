"""Run files: TOML text to a `Run` and back, with overrides and stages.

Every error names the file and line, the key, the value and the fix, and comes before a model is loaded.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from groupwise.errors import RunFileError
from groupwise.run import Run, Stage
from groupwise.run_errors import explain, line_of

NAMED_TABLES = ("model", "engine", "algorithm", "task")
"""Tables for which a plain word is short for a table with that name."""


@dataclass(frozen=True)
class LoadedRun:
    """A run with where it came from."""

    run: Run
    name: str
    notes: tuple[str, ...] = ()
    """What was converted on the way, to be said aloud."""


def packaged_runs() -> dict[str, str]:
    """The run files that come with groupwise: name -> text."""
    folder = resources.files("groupwise.runs")
    return {
        entry.name.removesuffix(".toml"): entry.read_text("utf-8")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    }


def load_run(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> LoadedRun:
    """Read a run from a file, a packaged run's name, or a mapping; lay `key.path=value` overrides over it.

    Raises `RunFileError`.
    """
    if isinstance(source, Mapping):
        text, place, name, base, raw = "", "run", "run", Path.cwd(), dict(source)
    else:
        text, place, name, base = _find(source)
        try:
            raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise RunFileError(f"{place} is not valid TOML: {error}", fix="mend that line") from error
    raw = _copy(raw)
    for override in overrides:
        _override(raw, override)
    raw = _with_stages(_expand(raw))
    for override in overrides:
        _must_reach(raw, override)
    _make_paths_absolute(raw, base)
    try:
        run = Run.model_validate(raw)
    except ValidationError as error:
        raise explain(error, raw, text, place) from error
    return LoadedRun(run, name, tuple(_conversions(raw, run.model_dump(mode="python"), text, place)))


def to_toml(run: Run) -> str:
    """The effective run as a run file: every setting with its value. Settings that are not set are left out."""
    tree = run.model_dump(mode="json", exclude_none=True)
    if len(run.stages) == 1:
        tree |= tree.pop("stages")[0]
    return tomli_w.dumps(tree)


def differences(old: Run, new: Run) -> list[str]:
    """`key: old -> new` for every setting that differs."""
    before, after = dict(_leaves(old.model_dump(mode="json"))), dict(_leaves(new.model_dump(mode="json")))
    keys = list(before) + [key for key in after if key not in before]
    return [f"{key}: {before.get(key)!r} -> {after.get(key)!r}" for key in keys if before.get(key) != after.get(key)]


def _find(source: str | Path) -> tuple[str, str, str, Path]:
    """Text, place for messages, name, and base folder of a run file or packaged run."""
    path = Path(source)
    if path.is_file():
        return path.read_text("utf-8"), str(path), path.stem, path.resolve().parent
    runs = packaged_runs()
    if str(source) in runs:
        return runs[str(source)], f"packaged run {source}", str(source), Path.cwd()
    near = difflib.get_close_matches(str(source), [*runs, *(entry.name for entry in Path.cwd().glob("*.toml"))], 1)
    hint = f"did you mean {near[0]}?" if near else "give a run file"
    raise RunFileError(
        f"there is no run file or packaged run {str(source)!r}", fix=f"{hint} (packaged: {', '.join(runs)})"
    )


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value


def _override(raw: dict[str, Any], override: str) -> None:
    """Lay one `key.path=value` over the tree; the value is TOML, or else a plain string."""
    path, separator, text = override.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise RunFileError(
            f"--set {override!r} is not key.path=value", fix="write for instance --set optimizer.learning_rate=1e-5"
        )
    if keys[0] == "stages" and "stages" not in raw:
        raise RunFileError(
            f"--set {override!r}: this run has no list of stages", fix=f"set {'.'.join(keys[2:]) or 'its keys'} itself"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    node: Any = raw
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(node, list):
            if not key.isdigit() or int(key) >= len(node):
                raise RunFileError(
                    f"--set {override!r}: {'.'.join(keys[: depth + 1])} doesn't exist", fix=f"use 0 to {len(node) - 1}"
                )
            if last:
                node[int(key)] = value
            else:
                node = node[int(key)]
        elif last:
            node[key] = value
        else:
            inner = node.get(key, {})
            node[key] = {"name": inner} if isinstance(inner, str) else inner
            node = node[key]
            if not isinstance(node, dict | list):
                raise RunFileError(
                    f"--set {override!r}: {key} is a value, not a table",
                    fix=f"set {'.'.join(keys[: depth + 1])} itself",
                )


def _expand(table: dict[str, Any]) -> dict[str, Any]:
    """A word for a named table becomes that table; an engine without a name is the in-process one."""
    expanded = {
        key: {"name": value} if key in NAMED_TABLES and isinstance(value, str) else value
        for key, value in table.items()
    }
    if isinstance(expanded.get("engine"), dict):
        expanded["engine"] = {"name": "torch"} | expanded["engine"]
    return expanded


def _must_reach(raw: Mapping[str, Any], override: str) -> None:
    """Raise `RunFileError` for an override of all stages where each of them has a value of its own, which wins."""
    keys = override.partition("=")[0].strip().split(".")
    stages = raw.get("stages")
    if keys[0] not in Stage.model_fields or not isinstance(stages, list) or len(stages) < 2:
        return
    alone: dict[str, Any] = {}
    _override(alone, override)
    wanted = _expand(alone)
    if not any(_holds(stage, wanted) for stage in stages):
        raise RunFileError(
            f"--set {override!r} reaches no stage: each sets that itself",
            fix=f"set stages.N.{'.'.join(keys)}, N from 0",
        )


def _holds(tree: Any, wanted: Any) -> bool:
    """Whether all of `wanted` stands in the tree."""
    if isinstance(tree, dict) and isinstance(wanted, dict):
        return all(key in tree and _holds(tree[key], value) for key, value in wanted.items())
    return bool(tree == wanted)


def _with_stages(raw: dict[str, Any]) -> dict[str, Any]:
    """Move stage settings into `stages`: each stage is the top level with its own keys laid over it."""
    shared = {key: raw.pop(key) for key in list(raw) if key in Stage.model_fields}
    stages = raw.get("stages", [{}])
    if isinstance(stages, list) and all(isinstance(stage, dict) for stage in stages):
        raw["stages"] = [_laid_over(_copy(shared), _expand(stage)) for stage in stages]
    return raw


def _laid_over(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; a table of another name replaces the whole table."""
    for key, value in over.items():
        below = under.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and value.get("name") in (None, below.get("name")):
            under[key] = _laid_over(below, value)
        else:
            under[key] = value
    return under


def _make_paths_absolute(raw: dict[str, Any], base: Path) -> None:
    """Paths in a run file are relative to it; names that are no path there (a hub's) stay as they are."""

    def absolute(table: Any, *keys: str) -> None:
        for key in keys:
            value = table.get(key) if isinstance(table, dict) else None
            if isinstance(value, str) and value and (base / value).exists():
                table[key] = str((base / value).resolve())

    absolute(raw.get("model"), "name")
    absolute(raw.get("engine"), "path")
    for stage in _list(raw.get("stages")):
        if isinstance(stage, dict):
            absolute(stage, "samples")
            absolute(stage.get("task"), "path", "test_path")
            absolute(stage.get("critic"), "start")
            prompts = stage.get("prompts")
            absolute(prompts.get("chat") if isinstance(prompts, dict) else None, "template")
            for reward in _list(stage.get("rewards")):
                absolute(reward, "file", "model")


def _list(value: Any) -> list[Any]:
    """The value where it is a list; anything else is for validation to refuse."""
    return value if isinstance(value, list) else []


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for key, value in items:
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) or (isinstance(value, list | tuple) and value and isinstance(value[0], Mapping)):
            yield from _leaves(value, here)
        else:
            yield here, value


def _conversions(raw: Any, effective: Any, text: str, place: str) -> Iterator[str]:
    """A note for each number that the file gave as a string."""
    given = dict(_leaves(raw))
    for key, value in _leaves(effective):
        if isinstance(value, int | float) and not isinstance(value, bool) and isinstance(given.get(key), str):
            yield f"{place}{line_of(text, key.split('.'))}: {key} = {given[key]!r} was read as the number {value}"
