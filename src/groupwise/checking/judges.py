"""The verifiers that `groupwise verify` runs on cases, and the settings that `--set` gives them."""

from __future__ import annotations

import difflib
import json
import os
import sys
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

from pydantic import ValidationError

from groupwise.checking.cases import BadCase, Judge, Verdict, field, verified
from groupwise.errors import DataError, RewardError
from groupwise.rewards.contract import Record
from groupwise.rewards.pooled import PooledReward
from groupwise.settings import Settings
from groupwise.types import FinishReason

Table = TypeVar("Table", bound=Settings)


def settings_from(table: type[Table], overrides: Sequence[str], **given: Any) -> Table:
    """Settings from `key=value` words, the value as TOML or else a plain string. Raises `RewardError`."""
    values = dict(given)
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise RewardError(f"--set {override!r} is not key=value", fix="write for instance --set cpu_seconds=5")
        try:
            values[key.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text
    try:
        return table.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = [name for name in table.model_fields if name != "name"]
            near = difflib.get_close_matches(key, known, 1)
            fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            raise RewardError(f"--set {key}: there is no such setting", fix=fix) from error
        fix = fault["msg"].removeprefix("Value error, ")
        raise RewardError(f"--set {key} = {fault['input']!r} won't do", fix=fix[:1].lower() + fix[1:]) from error


@contextmanager
def read_lines(source: str) -> Iterator[Iterable[bytes]]:
    """The lines of a file, or of standard input for `-`. Raises `DataError`."""
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 (only the opening is in question here)
    except OSError as error:
        raise DataError(f"{source} can't be read: {error.strerror}", fix="give a file of JSON lines, or -") from error
    with file:
        yield file


def write_verdicts(lines: Iterable[bytes], judge: Judge, workers: int, out: TextIO) -> None:
    """One JSON line for each case, each written as soon as it and those before it are known.

    Ends quietly where nobody reads any more.
    """
    with closing(verified(lines, judge, workers)) as verdicts:
        for verdict in verdicts:
            try:
                out.write(json.dumps(verdict) + "\n")
                out.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # what is flushed at exit must go somewhere
                return


class TextJudge:
    """A reward that compares a completion with a gold, in worker processes: cases `{id, gold, prediction}`.

    `finish_reason` in a case is that of the completion, `stop` where it isn't given.
    """

    unjudged = "not_scored"

    def __init__(self, reward: PooledReward, column: str) -> None:
        self.reward, self.column = reward, column

    def judge(self, case: Mapping[str, Any]) -> Verdict:
        gold = field(case, "gold", (str, int, float), "a text or a number")
        text = field(case, "prediction", str, "a text")
        finish = field(case, "finish_reason", str, "a text", "stop")
        if finish not in typing.get_args(FinishReason):
            raise BadCase(f"the field 'finish_reason' is {finish!r}, not stop, length or aborted")
        record = Record("case", "case", "", None, {self.column: gold}, text, text, (), finish)
        (outcome,) = self.reward.pool.score([record])
        score = outcome.score
        verdict = "not_scored" if score.value is None else "right" if score.correct else "wrong"
        return Verdict(verdict, score.reason, outcome.cpu_seconds, outcome.wall_seconds)

    def close(self) -> None:
        self.reward.close()


def math_judge(overrides: Sequence[str], workers: int) -> TextJudge:
    """The verifier `math`; `overrides` are its settings. Raises `RewardError`."""
    from groupwise.rewards.math import Math

    settings = settings_from(Math, overrides, workers=workers)
    return TextJudge(settings.build(Path.cwd()), settings.column)


JUDGES: dict[str, Callable[[Sequence[str], int], Judge]] = {"math": math_judge}
"""By the name that `groupwise verify` takes."""
