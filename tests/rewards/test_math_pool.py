"""The maths verifier in worker processes: as a reward, on its own, and with what can't be finished in time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupwise.errors import DataError
from groupwise.rewards import math
from groupwise.types import Score

LIMIT = 2.0


def members(numbers: range) -> str:
    """A set that takes long to compare: each member with each, none of them rational."""
    return "\\{" + ", ".join(f"\\sqrt{{{n}}}+\\sqrt[3]{{{n + 1}}}" for n in numbers) + "\\}"


SLOW_GOLD, SLOW_TEXT = members(range(2, 290)), f"\\boxed{{{members(range(289, 1, -1))}}}"


@pytest.fixture(scope="module")
def verifier() -> Iterator[math.Verifier]:
    with math.Verifier(cpu_seconds=LIMIT, wall_seconds=LIMIT + 0.5) as made:
        assert made.grade("\\boxed{1}", "1").correct  # so that no test waits for a worker's start
        yield made


def in_this_thread(call: Callable[[], Score]) -> Score:
    return call()


def in_a_pool(call: Callable[[], Score]) -> Score:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


def in_asyncio(call: Callable[[], Score]) -> Score:
    return asyncio.run(asyncio.to_thread(call))


@pytest.mark.parametrize("somewhere", [in_this_thread, in_a_pool, in_asyncio])
def test_R003_a_limit_works_from_anywhere_and_touches_nothing_else(
    verifier: math.Verifier, somewhere: Callable[[Callable[[], Score]], Score]
) -> None:
    start = time.monotonic()
    score = somewhere(lambda: verifier.grade(SLOW_TEXT, SLOW_GOLD))
    assert time.monotonic() - start < LIMIT + 1
    assert score.value is None and score.correct is None
    assert "CPU time" in score.reason or "took longer than" in score.reason
    assert verifier.grade("\\boxed{\\frac{1}{2}}", "0.5").correct is True


def test_many_are_graded_in_order_with_their_times(verifier: math.Verifier) -> None:
    pairs = [(f"\\boxed{{{n}}}", str(n - n % 2)) for n in range(20)]
    outcomes = verifier.outcomes(pairs)
    assert [outcome.score.correct for outcome in outcomes] == [n % 2 == 0 for n in range(20)]
    assert all(
        outcome.fault == "" and 0 <= outcome.cpu_seconds < 1 and outcome.wall_seconds > 0 for outcome in outcomes
    )


def test_an_injected_program_does_nothing(verifier: math.Verifier, tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    for program in (f'__import__("os").system("touch {probe}")', f'exec(\'open("{probe}", "w")\')'):
        for text, gold in ((program, "7"), (f"\\boxed{{{program}}}", "7"), ("7", program), (program, program)):
            assert verifier.grade(text, gold).correct is not True
    assert not probe.exists()


def test_graded_by_workers_that_all_callers_share() -> None:
    assert math.grade("so $\\boxed{\\frac12}$", "0.5").correct is True
    with ThreadPoolExecutor(4) as threads:
        scores = threads.map(lambda n: math.grade(f"The answer is {n}.", "3"), range(6))
        assert [score.correct for score in scores] == [n == 3 for n in range(6)]


def test_importing_it_is_light() -> None:
    program = (
        "import sys; from groupwise.rewards import math; "
        "print(sorted({'torch', 'sympy', 'mpmath', 'pydantic', 'transformers'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_reward_scores_its_own_golds_and_the_policy_reaches_the_workers(record) -> None:  # type: ignore[no-untyped-def]
    settings = math.Math(column="gold", percent="strict", workers=1)
    reward = settings.build(Path())
    try:
        records = [
            record("\\boxed{28\\%}", gold="28\\%"),
            record("\\boxed{28}", gold="28\\%"),
            record("so far 36 and", finish_reason="length", gold="36"),
            record("4", gold="see figure"),
        ]
        assert [score.value for score in reward.score(records)] == [1.0, 0.0, 0.0, None]
    finally:
        reward.close()


def test_R011_golds_that_cannot_be_read_are_reported_before_training() -> None:
    reward = math.Math().build(Path())
    try:
        reward.check([{"answer": "\\frac{1}{2}"}, {"answer": 3}, {"answer": "48+24 = 72\n#### 72"}])
        with pytest.raises(DataError, match="2 of 3 golds in column 'answer'.*see figure"):
            reward.check([{"answer": "see figure"}, {"answer": "7"}, {"answer": None}])
        with pytest.raises(DataError, match="needs the column 'answer'"):
            reward.check([{"gold": "7"}])
    finally:
        reward.close()


def test_its_settings_are_bounded_and_known() -> None:
    settings = math.Math()
    assert settings.cpu_seconds <= 3 and settings.memory_mb is not None and settings.memory_mb < 300
    assert set(math.Policy.model_fields) <= set(math.Math.model_fields)
    with pytest.raises(ValueError, match="percent"):
        math.Math(percent="never")  # type: ignore[arg-type]
