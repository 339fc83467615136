"""The verifiers that `groupwise verify` runs on cases, and the settings that `--set` gives them."""

from __future__ import annotations

import difflib
import json
import math
import os
import sys
import threading
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from pydantic import ValidationError

from groupwise.checking.cases import BadCase, Judge, Verdict, field, verified
from groupwise.errors import DataError, RewardError
from groupwise.rewards.contract import Record
from groupwise.rewards.pooled import PooledReward
from groupwise.settings import Settings
from groupwise.types import FinishReason

if TYPE_CHECKING:
    from groupwise.rewards.code import Code, IOTest, Limits
    from groupwise.rewards.code.runner import Runner

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


class CodeJudge:
    """Programs in sandboxes: cases `{id, program, tests, io_tests, limits}`, of which all but the program may lack.

    Each thread has a runner of its own.
    """

    unjudged = "error"

    def __init__(self, settings: Code) -> None:
        """Raises `RewardError` where no sandbox can be made on this machine."""
        from groupwise.rewards.code import run

        self.settings = settings
        self._own, self._lock = threading.local(), threading.Lock()
        self._runners: list[Runner] = []
        run("x = 1", "assert x == 1", libraries=settings.libraries, isolation=settings.isolation)

    def judge(self, case: Mapping[str, Any]) -> Verdict:
        from groupwise.rewards.code.box import BoxError

        program = field(case, "program", str, "a text")
        tests = field(case, "tests", str, "a text", "")
        pairs = [_pair(pair) for pair in field(case, "io_tests", list, "a list of pairs", [])]
        limits = self._limits(field(case, "limits", dict, "an object", {}))
        reason = ""
        for _ in range(2):
            try:
                result = self._runner().run(program, tests, pairs, limits)
            except BoxError as error:  # the machine's fault, which may pass
                reason = f"no sandbox: {error}"
            else:
                return Verdict(result.verdict, result.reason, result.cpu_seconds, result.wall_seconds)
        return Verdict("error", reason)

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def _runner(self) -> Runner:
        from groupwise.rewards.code.runner import Runner

        runner: Runner | None = getattr(self._own, "runner", None)
        if runner is None:
            runner = self._own.runner = Runner(self.settings.libraries, self.settings.isolation, spare=True)
            with self._lock:
                self._runners.append(runner)
        return runner

    def _limits(self, given: Mapping[str, Any]) -> Limits:
        from groupwise.rewards.code import Limits

        timeout = field(given, "timeout_s", (int, float), "a number", self.settings.timeout_s)
        memory = field(given, "memory_mb", (int, float), "a number", self.settings.program_memory_mb)
        if not (0 < timeout < math.inf and 0 < memory < math.inf):
            raise BadCase(f"the limits timeout_s = {timeout}, memory_mb = {memory} are not above 0")
        return Limits(float(timeout), int(memory))


def _pair(pair: Any) -> IOTest:
    """A pair of input and output: `{stdin, stdout}`, or two texts."""
    from groupwise.rewards.code import IOTest

    texts = [pair.get("stdin"), pair.get("stdout")] if isinstance(pair, Mapping) else pair
    if not isinstance(texts, list) or [type(text) for text in texts] != [str, str]:
        raise BadCase("the field 'io_tests' holds something else than pairs of texts")
    return IOTest(*texts)


def math_judge(overrides: Sequence[str], workers: int) -> TextJudge:
    """The verifier `math`; `overrides` are its settings. Raises `RewardError`."""
    from groupwise.rewards.math import Math

    settings = settings_from(Math, overrides, workers=workers)
    return TextJudge(settings.build(Path.cwd()), settings.column)


def code_judge(overrides: Sequence[str], workers: int) -> CodeJudge:
    """The verifier `code`; `overrides` are its settings. Raises `RewardError`. Says on standard error where it runs
    programs without a sandbox."""
    from groupwise.rewards.code import Code
    from groupwise.rewards.code.setup import weaker_notes

    settings = settings_from(Code, overrides, workers=workers)
    for line in weaker_notes(settings.isolation, "verify code"):
        print(line, file=sys.stderr)
    return CodeJudge(settings)


JUDGES: dict[str, Callable[[Sequence[str], int], Judge]] = {"math": math_judge, "code": code_judge}
"""By the name that `groupwise verify` takes."""
