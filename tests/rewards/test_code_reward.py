"""The reward `code`: completions against rows, rows against their own solutions, a training's worth of bad ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from groupwise.checking.verifiers import bad_rows
from groupwise.errors import DataError, RewardError
from groupwise.rewards import build_reward
from groupwise.rewards.code import Code
from groupwise.rewards.contract import Record, Reward
from groupwise.rewards.workers.pool import WorkerPool

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

RIGHT = "Adding is easy:\n```python\ndef add(a, b):\n    return a + b\n```\n"
TESTS = ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]
Make = Callable[..., Reward]


@pytest.fixture
def reward() -> Iterator[Make]:
    made: list[Reward] = []

    def make(**settings: Any) -> Reward:
        made.append(Code(**settings).build(Path()))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_right_wrong_and_not_scored(reward: Make, record: Callable[..., Record]) -> None:
    records = [
        record(RIGHT, tests=TESTS),
        record(RIGHT.replace("a + b", "3"), tests=TESTS),
        record("def add(a, b): return a + b", tests=TESTS),
        record(RIGHT[:-4], tests=TESTS),
        record(RIGHT, tests=[]),
        record(RIGHT, tests="print(add(1, 2))"),
        record(RIGHT.replace("return", "while 1: pass #"), tests=TESTS),
    ]
    scores = reward(timeout_s=0.5).score(records)
    assert [score.value for score in scores] == [1.0, 0.0, 0.0, 0.0, None, None, 0.0]
    assert [score.correct for score in scores] == [True, False, False, False, None, None, False]
    assert scores[0].reason == "the last code block: pass, 2 of 2 checks"
    assert "fail, 1 of 2 checks: line 2 of the tests, 'assert add(2, 2) == 4'" in scores[1].reason
    assert scores[2].reason == "no program: no code block in Python"
    assert scores[4].reason == "no tests"
    assert "timeout" in scores[6].reason


def test_partial_credit(reward: Make, record: Callable[..., Record]) -> None:
    program = "```python\nprint(4)\n```"
    pairs = [{"stdin": "", "stdout": "4"}, ["", "5"], ["", "4"], ["", "6"]]
    one = reward(column=None, io_column="io", partial=True).score([record(program, io=pairs)])[0]
    assert (one.value, one.correct) == (0.5, False)
    two = reward(column=None, io_column="io").score([record(program, io=pairs)])[0]
    assert (two.value, two.correct) == (0.0, False)


def test_partial_credit_ends_at_the_first_limit_met(reward: Make, record: Callable[..., Record]) -> None:
    program = "```python\nif input() == 'spin':\n    while True: pass\nprint(4)\n```"
    pairs = [["x", "4"], ["x", "5"], ["spin", "4"], *[["x", "4"]] * 3, *[["spin", "4"]] * 50]
    made = reward(column=None, io_column="io", partial=True, timeout_s=0.5)
    (score,) = made.score([record(program, io=pairs)])
    assert (score.value, score.correct) == (1 / len(pairs), False)
    assert "1 of 56 checks" in score.reason


def test_columns_of_humaneval_and_mbpp(reward: Make, record: Callable[..., Record]) -> None:
    row = {
        "prompt": "def add(a, b):\n",
        "test": "def check(candidate):\n    assert candidate(1, 2) == three\n",
        "entry_point": "add",
        "setup": "three = add(1, 2) and 3",
    }
    made = reward(
        column="test", prefix_column="prompt", entry_point_column="entry_point", setup_column="setup", program="text"
    )
    right, wrong = made.score([record("    return a + b\n", **row), record("    return a - b\n", **row)])
    assert (right.value, wrong.value) == (1.0, 0.0), right.reason


def test_R085_rows_without_tests_are_listed_before_training(reward: Make) -> None:
    made = reward()
    made.check([{"tests": TESTS}])
    with pytest.raises(DataError, match=r"2 of 3 rows can't be used: x: no tests; row 2: no tests"):
        made.check([{"tests": TESTS}, {"id": "x", "tests": []}, {"tests": "pass"}])
    with pytest.raises(DataError, match="needs the column 'tests'"):
        made.check([{"test": TESTS}])
    with pytest.raises(RewardError, match="has no tests"):
        reward(column=None).check([{}])


def test_R099_rows_are_checked_with_their_solutions(reward: Make) -> None:
    made = reward(solution_column="code")
    good = {"tests": TESTS, "code": "def add(a, b): return a + b"}
    made.check([good] * 3)
    vacuous = {"id": "v", "tests": "assert True", "code": good["code"]}
    wrong = {"id": "w", "tests": TESTS, "code": "def add(a, b): return a - b"}
    with pytest.raises(DataError, match="v: an empty program passes.*w: its solution fails"):
        made.check([good, vacuous, wrong])


def test_all_bad_rows_are_found_with_one_run_of_each_solution(reward: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    score = WorkerPool.score
    monkeypatch.setattr(
        WorkerPool, "score", lambda pool, records: asked.extend(r.text for r in records) or score(pool, records)
    )
    made = build_reward([Code(solution_column="code", timeout_s=1.0)], base=Path())
    good = {"tests": TESTS, "code": "def add(a, b): return a + b"}
    wrong = good | {"code": "def add(a, b): return a - b"}
    rows = [good, wrong, {"tests": TESTS}, good | {"tests": "assert True"}, good | {"tests": []}, wrong, good]
    with closing(made):
        assert made.announced(rows) == ("reward 'code': checking 7 solutions, and an empty program on each row",)
        found = bad_rows(made, rows)
    assert [row for row, _ in found] == rows[1:6]
    whys = [why.removeprefix("reward 'code': ") for _, why in found]
    assert whys[1::2] == ["it lacks the column 'code'", "no tests"]
    assert whys[0].startswith("its solution fails") and whys[2].startswith("an empty program passes")
    assert len(asked) == 2 * 5
    with closing(build_reward([Code()], base=Path())) as made:
        assert made.announced(rows) == ()


def test_R018_the_weaker_mode_is_loud() -> None:
    with closing(build_reward([Code(isolation="process", label="mbpp")], base=Path())) as made:
        (note,) = made.notes
    assert note.startswith("reward 'mbpp' runs programs WITHOUT a sandbox")
    with closing(build_reward([Code()], base=Path())) as made:
        assert made.notes == ()


def test_settings_that_cannot_work(reward: Make) -> None:
    with pytest.raises(ValidationError):
        Code(isolation="none")  # type: ignore[arg-type]
    with pytest.raises(RewardError, match="no_such_library"):
        reward(libraries=["no_such_library"]).check([{"tests": TESTS}])


BAD = [
    "while True: pass",
    "import os; os._exit(0)",
    "x = 'a'\nwhile True: x += x",
    "while True: print('x' * 10**6)",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "import os, signal\nos.kill(0, signal.SIGKILL)",
    "(" * 5000,
    "import ctypes; ctypes.string_at(0)",
    "def add(a, b): return add(a, b)",
    "",
]


def test_pathological_completions_cost_nobody_else(reward: Make, record: Callable[..., Record]) -> None:
    records = [record(f"```python\n{bad}\n```", tests=TESTS) for bad in BAD]
    mixed = [one for bad in records for one in (bad, record(RIGHT, tests=TESTS))]
    scores = reward(timeout_s=0.5).score(mixed)
    assert [score.value for score in scores] == [0.0, 1.0] * len(BAD)


@pytest.mark.slow
def test_two_hundred_pathological_completions(reward: Make, record: Callable[..., Record]) -> None:
    records = [record(f"```python\n{bad}\n```", tests=TESTS) for bad in BAD * 20]
    assert {score.value for score in reward(timeout_s=0.5).score(records)} == {0.0}
