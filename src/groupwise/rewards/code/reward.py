"""The reward `code`: 1 where the completion's program passes the tests of its row, else 0.

Programs run in sandboxes that worker processes start, each with the next one ready. A row with nothing to check is
reported before training, and not scored if it is met.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from groupwise.errors import DataError, RewardError
from groupwise.rewards.base import EXAMPLES, require_columns
from groupwise.rewards.code.extract import as_block, last_block
from groupwise.rewards.code.result import IOTest, Limits, Result
from groupwise.rewards.code.setup import Isolation, weaker_notes
from groupwise.rewards.contract import Record, Reward, Unavailable
from groupwise.rewards.pooled import PooledReward, PooledSettings
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target
from groupwise.types import Score

_EMPTY = "pass"


class Code(PooledSettings):
    """1 where the completion's program passes the tests of its row, else 0."""

    name: Literal["code"] = "code"
    column: str | None = "tests"
    """The column with tests: Python source with asserts, or a list of such texts."""
    io_column: str | None = None
    """The column with pairs of input and output: a list of `{stdin, stdout}` or of two texts each."""
    setup_column: str | None = None
    """The column with source that runs between the program and the tests (MBPP's `test_setup_code`)."""
    entry_point_column: str | None = None
    """The column with the name of the function that the tests' `check(candidate)` is given (HumanEval)."""
    prefix_column: str | None = None
    """The column with source that stands before every program (HumanEval's `prompt`)."""
    solution_column: str | None = None
    """The column with a right program as a completion would hold it. With it, every row is checked before training: its
    solution must pass, and an empty program must not."""
    program: Literal["block", "text"] = "block"
    """Where the program is: the last complete Python block of the completion, or all of its text."""
    partial: bool = False
    """Give the share of checks that held instead of 0: pairs of input and output up to the first that meets a limit of
    time or memory, or check statements of the tests up to the first that fails."""
    timeout_s: float = Field(default=5.0, gt=0)
    """CPU seconds of a program, for its tests or for one pair of input and output."""
    program_memory_mb: int = Field(default=512, ge=32)
    """MiB that a program may hold."""
    libraries: tuple[str, ...] = ("numpy",)
    """Installed libraries that programs may import besides the standard library."""
    isolation: Isolation = "sandbox"
    """`sandbox` needs bubblewrap. `process` hides neither files nor network: for programs that you trust."""
    cpu_seconds: float = Field(default=60.0, gt=0)
    """CPU seconds that judging one completion may take outside the sandboxes."""
    wall_seconds: float = Field(default=600.0, gt=0)
    """Wall-clock seconds for one completion, all its tests together; what takes longer is not scored. Half of it as
    CPU time or asleep is a `timeout`, so that a slow program with many pairs of input and output is wrong instead."""

    def build(self, base: Path) -> Reward:
        given = self.model_dump(mode="json", exclude={"name", "weight", "label"})
        target = Target("groupwise.rewards.code.reward", "factory", json.dumps(given), self.shown)
        return _CodeReward(self, WorkerPool(target, workers=self.workers, limits=self.limits))

    def gold_text(self, row: Mapping[str, Any]) -> str | None:
        return str(_cell(row, self.solution_column)) or None

    def written(self, answer: str) -> Mapping[str, str]:
        return {"as a block": as_block(answer)} if self.program == "block" else {"alone": answer}


class _CodeReward(PooledReward):
    """The pool, and the check of the rows."""

    def __init__(self, settings: Code, pool: WorkerPool) -> None:
        super().__init__(settings.shown, pool)
        self._settings = settings

    @property
    def notes(self) -> tuple[str, ...]:
        return weaker_notes(self._settings.isolation, f"reward {self.name!r}")

    def announced(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        if self._settings.solution_column is None:
            return ()
        return (f"reward {self.name!r}: checking {len(rows)} solutions, and an empty program on each row",)

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        require_columns(rows, self._columns(), self.name)
        self._refuse(rows, self.bad_rows(rows))

    def bad_rows(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        columns, column = self._columns(), self._settings.solution_column
        self.pool.describe()
        bad: dict[int, str] = {}
        for number, row in enumerate(rows):
            lacking = [f"it lacks the column {column!r}" for column in columns if column not in row]
            if why := lacking[0] if lacking else _unusable(self._settings, row):
                bad[number] = why
        if column is not None:
            sound = [number for number in range(len(rows)) if number not in bad]
            bad |= self._bad_tasks(rows, sound, column)
        return dict(sorted(bad.items()))

    def _columns(self) -> list[str]:
        """Those that rows must have. Raises `RewardError` where none holds tests."""
        s = self._settings
        if s.column is None and s.io_column is None:
            raise RewardError(f"reward {self.name!r} has no tests", fix="set `column`, `io_column` or both")
        wanted = (s.column, s.io_column, s.setup_column, s.entry_point_column, s.prefix_column, s.solution_column)
        return [column for column in wanted if column is not None]

    def _bad_tasks(self, rows: Sequence[Mapping[str, Any]], numbers: Sequence[int], column: str) -> dict[int, str]:
        """Of these rows, those whose solution fails, or whose tests an empty program passes."""
        programs = [str(rows[number][column]) for number in numbers] + [_EMPTY] * len(numbers)
        given = [_record(self._settings, rows[n], text) for n, text in zip([*numbers] * 2, programs, strict=True)]
        scores = [outcome.score for outcome in self.pool.score(given)]
        bad: dict[int, str] = {}
        for number, solution, empty in zip(numbers, scores[: len(numbers)], scores[len(numbers) :], strict=True):
            if not solution.correct:
                bad[number] = f"its solution fails: {solution.reason}"
            elif empty.correct is not False:
                bad[number] = f"an empty program passes: {empty.reason}"
        return bad

    def _refuse(self, rows: Sequence[Mapping[str, Any]], bad: Mapping[int, str]) -> None:
        if bad:
            shown = "; ".join(f"{rows[n].get('id', f'row {n}')}: {why}" for n, why in [*bad.items()][:EXAMPLES])
            more = "; ..." if len(bad) > EXAMPLES else ""
            raise DataError(
                f"reward {self.name!r}: {len(bad)} of {len(rows)} rows can't be used: {shown}{more}",
                fix="mend or remove these rows",
            )


def factory(**settings: Any) -> Callable[[Record], Score]:
    """The reward function of one worker, which keeps a sandbox ready. Raises `RewardError` where none can be made."""
    from groupwise.rewards.code.box import BoxError
    from groupwise.rewards.code.runner import Runner, sandbox_error

    given = Code(**settings)
    runner = Runner(given.libraries, given.isolation, spare=True)
    try:
        runner.run("x = 1", "assert x == 1")
    except BoxError as error:
        raise sandbox_error(error) from None
    limits = Limits(given.timeout_s, given.program_memory_mb, total_seconds=given.wall_seconds / 2)

    def grade(record: Record) -> Score:
        program, where = last_block(record.clean_text) if given.program == "block" else (record.clean_text, "the text")
        if why := _unusable(given, record.columns):
            return Score(value=None, reason=why)
        if program is None:
            return Score(value=0.0, correct=False, reason=f"no program: {where}")
        tests, pairs = _tests(given, record.columns), _pairs(given, record.columns)
        prefix = str(_cell(record.columns, given.prefix_column))
        entry = str(_cell(record.columns, given.entry_point_column))
        try:
            result = runner.run(prefix + program, tests, pairs, limits, entry_point=entry, all_pairs=given.partial)
        except BoxError as error:
            raise Unavailable(f"no sandbox: {error}") from error
        return _score(result, where, given.partial)

    return grade


def _score(result: Result, where: str, partial: bool) -> Score:
    if not result.total:
        return Score(value=None, reason=result.reason)
    passed = result.verdict == "pass"
    share = result.passed / result.total
    reason = f"{where}: {result.verdict}, {result.passed} of {result.total} checks"
    return Score(
        value=float(passed) if not partial else 1.0 if passed else min(share, 1.0),
        correct=passed,
        reason=f"{reason}: {result.reason}" if result.reason else reason,
    )


def _unusable(settings: Code, row: Mapping[str, Any]) -> str:
    """Why a row can't be scored, empty where it can."""
    from groupwise.rewards.code.prepare import prepare

    try:
        pairs, tests = _pairs(settings, row), _tests(settings, row)
        checks = prepare(tests, str(_cell(row, settings.entry_point_column))).checks if tests.strip() else 0
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        return f"its tests can't be read: {error}"
    return "" if pairs or checks else "no tests"


def _cell(row: Mapping[str, Any], column: str | None) -> Any:
    value = row.get(column) if column is not None else None
    return "" if value is None else value


def _tests(settings: Code, row: Mapping[str, Any]) -> str:
    tests, setup = _cell(row, settings.column), str(_cell(row, settings.setup_column))
    text = tests if isinstance(tests, str) else "\n".join(str(test) for test in tests)
    return "\n".join(part for part in (setup, text) if part) if text.strip() else ""


def _pairs(settings: Code, row: Mapping[str, Any]) -> list[IOTest]:
    """Raises ValueError or TypeError where the column holds something else than pairs of texts."""
    pairs = []
    for pair in _cell(row, settings.io_column):
        given, expected = (pair["stdin"], pair["stdout"]) if isinstance(pair, Mapping) else pair
        if not (isinstance(given, str) and isinstance(expected, str)):
            raise TypeError("a pair of input and output is two texts")
        pairs.append(IOTest(given, expected))
    return pairs


def _record(settings: Code, row: Mapping[str, Any], program: str) -> Record:
    """A completion that holds the program."""
    text = as_block(program) if settings.program == "block" else program
    return Record(
        group_id="check",
        prompt_id="check",
        prompt="",
        messages=None,
        columns=row,
        text=text,
        clean_text=text,
        token_ids=(),
        finish_reason="stop",
    )
