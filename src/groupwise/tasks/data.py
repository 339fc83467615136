"""The task `data`: your own rows, from a JSONL, JSON or Parquet file or a Hugging Face data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.files import read_rows
from groupwise.tasks.keyed import digest
from groupwise.tasks.rows import checked_rows, name_columns


class Data(Settings):
    """Rows from a file or data set. Every column reaches the reward, which the run file names."""

    name: Literal["data"] = "data"
    path: str
    """A file (.jsonl, .json, .parquet), a folder with a data set, or the name of a data set on the Hugging
    Face hub."""
    subset: str | None = None
    """The configuration of a hub data set, such as `main`."""
    split: str = "train"
    """The split of a data set that is trained on."""
    test_path: str | None = None
    """Where the test rows are: a file, folder or name like `path`."""
    test_split: str | None = None
    """The split of the same data set that is tested on."""
    test_rows: int | float | None = None
    """Rows held out of the training rows for the test: a count, or a share below 1. Which ones depends on
    their text alone, so it is the same in every run, and rows that ask the same are held out together."""
    columns: dict[str, str] = Field(default_factory=dict)
    """What the data's columns are called here: `{ prompt = "question", answer = "gold" }`."""
    limit: int | None = Field(default=None, ge=1)
    """Read only this many rows of each file or split."""

    @field_validator("test_rows")
    @classmethod
    def _test_rows(cls, value: int | float | None) -> int | float | None:
        if value is not None and not (isinstance(value, int) and value >= 1) and not 0 < value < 1:
            raise DataError(f"test_rows is {value}", fix="give a count of rows, or a share between 0 and 1")
        return value

    @model_validator(mode="after")
    def _one_test(self) -> Data:
        named = [key for key in ("test_path", "test_split", "test_rows") if getattr(self, key) is not None]
        if len(named) > 1:
            raise DataError(f"{' and '.join(named)} both say where the test rows are", fix="keep one of them")
        return self

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """The rows in the data's order, which no seed changes."""
        if split == "train" or self.test_rows is not None:
            rows = self._read(self.path, self.split)
            return rows if self.test_rows is None else hold_out(rows, self.test_rows, repr(self.path))[split]
        if self.test_path is not None:
            return self._read(self.test_path, self.split)
        return [] if self.test_split is None else self._read(self.path, self.test_split)

    def reward(self) -> Mapping[str, Any] | None:
        return None

    def _read(self, source: str, split: str) -> list[dict[str, Any]]:
        rows = read_rows(source, split, self.subset, self.limit)
        return checked_rows(name_columns(rows, self.columns, repr(source)), repr(source))


def hold_out(rows: list[dict[str, Any]], amount: int | float, where: str) -> dict[Split, list[dict[str, Any]]]:
    """Rows split into train and test, with `amount` (a count, or a share rounded up to one row) in the test.

    Rows that ask the same stay together, so the test may be a little larger. Raises `DataError` where no row
    is left to train on.
    """
    asked = [digest(row.get("prompt"), row.get("messages")) for row in rows]
    wanted = amount if isinstance(amount, int) else max(1, round(amount * len(rows)))
    counts: dict[str, int] = {}
    for key in asked:
        counts[key] = counts.get(key, 0) + 1
    held: set[str] = set()
    taken = 0
    for key in sorted(counts):
        if taken >= wanted:
            break
        held.add(key)
        taken += counts[key]
    train = [row for row, key in zip(rows, asked, strict=True) if key not in held]
    if not train:
        raise DataError(
            f"holding out {amount} of the {len(rows)} rows of {where} leaves none to train on",
            fix="hold out fewer",
        )
    return {"train": train, "test": [row for row, key in zip(rows, asked, strict=True) if key in held]}
