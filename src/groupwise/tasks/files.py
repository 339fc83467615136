"""Rows from files and from Hugging Face data sets, with errors that name the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from groupwise.errors import DataError
from groupwise.tasks.rows import suggestion


def read_rows(source: str, split: str, subset: str | None, limit: int | None) -> list[dict[str, Any]]:
    """The first `limit` rows (all where None) of a file, a saved data set's folder, or a data set on the hub.

    `split` and `subset` choose within a data set and mean nothing for a file. Raises `DataError` for what is
    missing, malformed or empty.
    """
    path = Path(source).expanduser()
    if path.is_file():
        rows = _reader(path)(path)
    elif path.is_dir():
        rows = _data_set_rows(_open_folder(path, split, subset), source, split, limit)
    elif path.suffix in READERS or source.startswith((".", "/", "~")):
        raise DataError(f"there is no file {source!r}{_near_files(path)}", fix="correct the path")
    else:
        rows = _data_set_rows(_open_hub(source, split, subset, path), source, split, limit)
    if not rows:
        raise DataError(f"{source!r} holds no rows", fix="give a file or split with at least one row")
    return rows[:limit]


def _near_files(path: Path) -> str:
    """A suggestion from the files beside the missing one."""
    if not path.parent.is_dir():
        return f" (nor a folder {str(path.parent)!r})"
    return suggestion(path.name, [entry.name for entry in path.parent.iterdir()])


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    """One JSON object per line; blank lines are skipped."""
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(
                    f"line {number} of {str(path)!r} is not JSON ({error})", fix="mend that line"
                ) from error
            if not isinstance(row, dict):
                raise DataError(
                    f"line {number} of {str(path)!r} is a {type(row).__name__}, not an object",
                    fix='write one {"prompt": ...} per line',
                )
            rows.append(row)
    return rows


def _read_json(path: Path) -> list[dict[str, Any]]:
    """One JSON list of objects."""
    try:
        rows = json.loads(_text(path))
    except ValueError as error:
        fix = "mend it, or name it .jsonl if it has one object per line"
        raise DataError(f"{str(path)!r} is not JSON ({error})", fix=fix) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{str(path)!r} is not a list of objects", fix='write [{"prompt": ...}, ...]')
    return rows


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{str(path)!r} can't be read as Parquet ({reason})", fix="write the file anew") from error


def _text(path: Path) -> str:
    """The text of a UTF-8 file, a byte-order mark left out."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"line {line} of {str(path)!r} is not UTF-8", fix="save the file as UTF-8") from error


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def _reader(path: Path) -> Callable[[Path], list[dict[str, Any]]]:
    if path.suffix not in READERS:
        raise DataError(f"{str(path)!r} ends in none of {', '.join(READERS)}", fix="convert or rename the file")
    return READERS[path.suffix]


def _open_folder(path: Path, split: str, subset: str | None) -> Any:
    """A data set written by `save_to_disk`, or a folder that `load_dataset` understands."""
    import datasets

    if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
        saved = datasets.load_from_disk(str(path))
        return _split_of(saved, split, str(path)) if isinstance(saved, datasets.DatasetDict) else saved
    return _load(str(path), split, subset, f"the folder {str(path)!r} can't be read as a data set")


def _open_hub(name: str, split: str, subset: str | None, path: Path) -> Any:
    missing = f"{name!r} is no file or folder here{_near_files(path)}, and as a hub data set can't be loaded"
    return _load(name, split, subset, missing)


def _load(name: str, split: str, subset: str | None, failed: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, subset, split=split)
    except Exception as error:  # the hub client, the builders and the file readers share no base class
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise DataError(f"{failed} ({reason[:200]})", fix="correct `path`, `split` or `subset`") from error


def _split_of(saved: Any, split: str, name: str) -> Any:
    if split not in saved:
        raise DataError(
            f"{name!r} has no split {split!r}{suggestion(split, saved)}, only {', '.join(saved)}",
            fix="name one of these",
        )
    return saved[split]


def _data_set_rows(data_set: Any, source: str, split: str, limit: int | None) -> list[dict[str, Any]]:
    """The rows of a `datasets.Dataset` as dicts of plain values."""
    if limit is not None:
        data_set = data_set.select(range(min(limit, len(data_set))))
    return [dict(row) for row in data_set]
