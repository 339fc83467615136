"""The task `rows`: rows handed over from Python, such as a list, a data set or a generator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.data import hold_out
from groupwise.tasks.rows import checked_rows


class InMemory:
    """Rows given from Python; a generator is read once, here.

        task = InMemory([{"prompt": "2+2=", "answer": "4"}, {"prompt": "2+3=", "answer": "5"}], test_rows=1)

    Raises `DataError` for rows that can't be used, or none.
    """

    name = "rows"

    def __init__(
        self, rows: Iterable[Row], test: Iterable[Row] | None = None, test_rows: int | float | None = None
    ) -> None:
        """`test` gives the test rows, or `test_rows` holds some out as in the task `data`, or there are
        none."""
        assert test is None or test_rows is None, "the test rows are given or held out, not both"
        train = checked_rows(rows, "the rows given")
        self._rows: dict[Split, list[dict[str, Any]]] = {"train": train, "test": []}
        if test_rows is not None:
            self._rows = hold_out(train, test_rows, "the rows given")
        elif test is not None:
            self._rows["test"] = checked_rows(test, "the test rows given")

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """The rows in the order given, which no seed changes."""
        return self._rows[split]

    def reward(self) -> Mapping[str, Any] | None:
        return None


class GivenRows(Settings):
    """What a run file says of rows that were handed over from Python: that they can't be read from it."""

    name: Literal["rows"] = "rows"

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        raise DataError(
            "the rows of this run were given from Python",
            fix="use groupwise.train or groupwise.resume with prompts=...",
        )

    def reward(self) -> Mapping[str, Any] | None:
        return None
