"""The worker pool: hard limits from anywhere, faults that stay with their sample, clean workers."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from processes import group_lives, wait_until

from groupwise.errors import RewardError
from groupwise.rewards.workers.limits import Limits
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.process import LARGEST_ANSWER
from groupwise.rewards.workers.target import Target

HANGS = """
    import time

    def reward(record):
        if record.text == "spin":
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
        if record.text == "sleep":
            time.sleep(600)
        return record.text == "good"
"""


def values(pool: WorkerPool, records: list) -> list[float | None]:
    return [outcome.score.value for outcome in pool.score(records)]


@pytest.mark.parametrize(
    ("hangs", "limits", "met"),
    [
        ("spin", Limits(0.5, 60.0), "took more than 0.5 seconds of CPU time"),
        ("sleep", Limits(60.0, 1.0), "took longer than 1 second"),
    ],
)
def test_R003_a_hanging_reward_is_killed_from_the_main_thread(pool, record, hangs, limits, met):
    rewards = pool(HANGS, limits=limits)
    outcomes = rewards.score([record(text) for text in ("good", hangs, "bad", "good")])
    assert [outcome.score.value for outcome in outcomes] == [1.0, None, 0.0, 1.0]
    assert outcomes[1].score.reason == f"rewards.py:reward {met}"
    assert (rewards.counters.timeouts, rewards.counters.errors, rewards.counters.restarts) == (1, 1, 1)


def test_R003_a_hanging_reward_is_killed_from_worker_threads(pool, record):
    rewards = pool(HANGS, limits=Limits(0.5, 1.0), workers=2)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(values, rewards, [record("spin"), record("good")]) for _ in range(2)]
        assert [call.result() for call in calls] == [[None, 1.0]] * 2
    # The threads that started the workers are gone; the workers are not.
    assert values(rewards, [record("good")]) == [1.0]
    assert rewards.counters.restarts == 2


@pytest.mark.parametrize("in_thread", [False, True])
def test_R003_a_hanging_reward_is_killed_inside_asyncio(pool, record, in_thread):
    rewards = pool(HANGS, limits=Limits(0.5, 1.0))

    async def score() -> list[float | None]:
        records = [record("sleep"), record("good")]
        return await asyncio.to_thread(values, rewards, records) if in_thread else values(rewards, records)

    assert asyncio.run(score()) == [None, 1.0]


def test_results_keep_the_order_of_records_over_several_workers(pool, record):
    source = """
        import time

        def reward(record):
            time.sleep(record.columns["wait"])
            return record.columns["number"]
    """
    rewards = pool(source, workers=3)
    records = [record("", number=number, wait=0.02 * (number % 3 == 0)) for number in range(24)]
    assert values(rewards, records) == list(range(24))


def test_a_worker_that_ends_itself_is_asked_again_and_then_given_up(pool, record, tmp_path):
    source = f"""
        import os, pathlib

        def reward(record):
            seen = pathlib.Path({str(tmp_path)!r}) / record.text
            first = not seen.exists()
            seen.touch()
            if record.text == "always" or (record.text == "once" and first):
                os._exit(3)
            return 1.0
    """
    rewards = pool(source)
    outcomes = rewards.score([record("once"), record("always"), record("never")])
    assert [outcome.score.value for outcome in outcomes] == [1.0, None, 1.0]
    assert outcomes[1].score.reason == "rewards.py:reward lost its process twice; the last one ended with status 3"
    assert (rewards.counters.errors, rewards.counters.restarts) == (1, 3)


def test_a_crash_names_its_signal(pool, record):
    rewards = pool("import os, signal\ndef reward(record): os.kill(os.getpid(), signal.SIGSEGV)")
    assert "ended by signal SIGSEGV" in rewards.score([record("")])[0].score.reason


def test_what_a_reward_prints_or_reads_does_not_touch_the_channel(pool, record, capfd):
    source = """
        import os, sys

        def reward(record):
            print("a line from the reward")
            os.write(1, b"raw bytes\\n")
            return 1.0 if sys.stdin.read() == "" else 0.0
    """
    assert values(pool(source), [record("a"), record("b")]) == [1.0, 1.0]
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("a line from the reward") == 2 and "raw bytes" in printed.err


def test_forged_bytes_on_the_channel_are_a_fault(pool, record):
    source = """
        import os

        def reward(record):
            if record.text == "forge":
                for descriptor in range(3, 256):
                    try:
                        os.write(descriptor, record.columns["bytes"])
                    except OSError:
                        pass
            return 0.0
    """
    rewards = pool(source)
    forged = b'{"number": 1, "outcomes": [{"value": 1e9}]}'
    for data in (b"garbage" * 9, len(forged).to_bytes(8, "big") + forged, b"\0" * 7 + b"\x02{}"):
        assert values(rewards, [record("forge", bytes=data), record("honest")]) == [None, 0.0]


def test_an_answer_too_large_for_the_trainer_is_a_fault(pool, record):
    source = f"""
        from groupwise import Score

        def reward(record):
            if record.text == "large":
                return Score(1.0, parts={{str(n) * 1000: 0.0 for n in range({LARGEST_ANSWER // 2000})}})
            return 1.0
    """
    outcomes = pool(source).score([record("large"), record("small")])
    assert [outcome.score.value for outcome in outcomes] == [None, 1.0]


def test_requests_and_answers_may_be_larger_than_a_pipe(pool, record):
    source = """
        from groupwise import Score

        def reward(record):
            return Score(float(len(record.text)), parts={str(n): 0.5 for n in range(50_000)})
    """
    (outcome,) = pool(source).score([record("x" * 3_000_000)])
    assert outcome.score.value == 3_000_000 and len(outcome.score.parts) == 50_000


def test_the_environment_is_empty_but_for_named_variables(pool, record, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hidden")
    monkeypatch.setenv("MY_TOKEN", "shown")
    source = """
        import os, pathlib

        def reward(record):
            everything = repr(sorted(os.environ.items())) + pathlib.Path("/proc/self/environ").read_text()
            assert "hidden" not in everything and "MY_SECRET" not in everything
            return os.environ["MY_TOKEN"] == "shown"
    """
    (outcome,) = pool(source, env=("MY_TOKEN",)).score([record("")])
    assert outcome.score.correct is True, outcome.score.reason


def test_a_named_variable_that_is_not_set_is_an_error_before_any_start(pool):
    with pytest.raises(RewardError, match="'NOT_SET_ANYWHERE', which isn't set"):
        pool("def reward(record): return 1", env=("NOT_SET_ANYWHERE",))


def test_workers_start_without_torch_or_pydantic_and_with_fixed_hashes(pool, record):
    modules = "import sys\ndef reward(record): return not {'torch', 'pydantic', 'transformers'} & set(sys.modules)"
    assert values(pool(modules), [record("")]) == [1.0]
    hashes = "def reward(record): return float(hash('a') % 2**40)"
    assert values(pool(hashes), [record("")]) == values(pool(hashes), [record("")])


def test_a_group_reward_sees_its_group_and_only_that(pool, record):
    source = """
        import time
        from groupwise import group_reward

        @group_reward
        def reward(records):
            assert len({r.prompt_id for r in records}) == 1
            if records[0].prompt_id == "hangs":
                time.sleep(600)
            if records[0].prompt_id == "short":
                return [1.0]
            if records[0].prompt_id == "none":
                return None
            longest = max(len(r.text) for r in records)
            return [len(r.text) == longest for r in records]
    """
    rewards = pool(source, limits=Limits(0.5, 1.0))
    ids = ["a", "a", "hangs", "hangs", "short", "short", "none", "b", "b"]
    outcomes = rewards.score([record("x" * n, prompt_id) for n, prompt_id in enumerate(ids)])
    assert [o.score.value for o in outcomes] == [0.0, 1.0, None, None, None, None, None, 0.0, 1.0]
    assert outcomes[4].score.reason == "rewards.py:reward returned 1 results for 2 records"
    assert "took longer" in outcomes[3].score.reason
    assert rewards.counters.timeouts == 1 and rewards.counters.errors == 5


def test_R015_what_one_call_raises_touches_no_other(pool, record):
    source = """
        def reward(record):
            if len(record.text) % 2:
                raise TypeError("odd\\nlength")
            return 1.0
    """
    rewards = pool(source)
    outcomes = rewards.score([record("x" * n) for n in range(6)])
    assert [outcome.score.value for outcome in outcomes] == [1.0, None] * 3
    assert rewards.counters.errors == 3 and rewards.counters.restarts == 0
    reason = outcomes[1].score.reason
    assert reason.startswith("rewards.py:reward raised TypeError: odd ") and "rewards.py, line 4" in reason


def test_sys_exit_and_recursion_are_faults_of_the_sample(pool, record):
    source = """
        import sys

        def reward(record):
            if record.text == "exit":
                sys.exit(0)
            return reward(record)
    """
    outcomes = pool(source).score([record("exit"), record("recurse")])
    assert [outcome.fault for outcome in outcomes] == ["reward", "reward"]
    assert "SystemExit" in outcomes[0].score.reason and "RecursionError" in outcomes[1].score.reason


def test_a_column_that_can_not_travel_is_a_fault_of_its_row(pool, record):
    outcomes = pool("def reward(record): return 1").score([record("", odd=lambda: 0), record("")])
    assert [outcome.score.value for outcome in outcomes] == [None, 1.0]
    assert "can't be given this row" in outcomes[0].score.reason


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_to_be_found\n", r"line 1: import nowhere_to_be_found\)"),
        ("x = 1\ndef reward(record) return 1\n", r"SyntaxError.*line 2"),
        ("raise SystemExit(1)\n", "SystemExit"),
        ("def other(record): return 1\n", r"no function 'reward'.*functions there: other"),
        ("def reward(a, b): return 1\n", "can't be called with one argument.*one parameter"),
        ("async def reward(record): return 1\n", "async"),
        ("import os\nos._exit(4)\n", "ended with status 4 while loading"),
    ],
)
def test_a_function_that_can_not_be_loaded_is_an_error_in_one_line(pool, source, message):
    with pytest.raises(RewardError, match=message) as raised:
        pool(source).describe()
    assert "\n" not in str(raised.value)


def test_a_file_may_import_what_lies_beside_it(pool, record, reward_file):
    reward_file("LIMIT = 3", "limits_beside.py")
    rewards = pool("import limits_beside\ndef reward(record): return len(record.text) < limits_beside.LIMIT")
    assert values(rewards, [record("ab"), record("abc")]) == [1.0, 0.0]


def test_close_ends_calls_in_flight_as_not_scored(pool, record, tmp_path):
    started = tmp_path / "started"
    rewards = pool(
        f"""
        import pathlib, time

        def reward(record):
            pathlib.Path({str(started)!r}).touch()
            time.sleep(600)
        """,
        limits=Limits(600.0, 600.0),
    )
    results: list[list[float | None]] = []
    thread = threading.Thread(target=lambda: results.append(values(rewards, [record(""), record("")])))
    thread.start()
    wait_until(started.exists)
    rewards.close()
    thread.join()
    assert results == [[None, None]]


def test_what_a_reward_started_is_killed_with_it(pool, record, tmp_path):
    source = f"""
        import os, pathlib, subprocess

        def reward(record):
            pathlib.Path({str(tmp_path / "group")!r}).write_text(str(os.getpgrp()))
            subprocess.run(["sleep", "600"])
    """
    rewards = pool(source, limits=Limits(0.5, 1.0))
    assert values(rewards, [record("")]) == [None]
    group = int((tmp_path / "group").read_text())
    assert group != os.getpgrp()
    wait_until(lambda: not group_lives(group))


def test_what_a_factory_refuses_in_words_for_users_is_said_in_these_words(reward_file) -> None:
    path = reward_file(
        "from groupwise.errors import RewardError\n"
        "def make(**settings):\n    raise RewardError('the program bwrap is missing', fix='install bubblewrap')\n"
    )
    with (
        WorkerPool(Target(str(path), "make", "{}")) as pool,
        pytest.raises(
            RewardError, match=r"^reward rewards\.py:make: the program bwrap is missing; install bubblewrap$"
        ),
    ):
        pool.describe()


def test_a_fork_of_a_process_that_has_scored_has_workers_of_its_own(pool, record):
    rewards = pool("import os\ndef reward(record): return float(os.getpid())")
    (ours,) = values(rewards, [record("")])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        (theirs,) = values(rewards, [record("")])
        rewards.close()
        os.write(writing, f"{theirs}".encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as said:
        ready, _, _ = select.select([said], [], [], 60.0)
        if not ready:
            os.kill(child, signal.SIGKILL)
        theirs = said.read()
    os.waitpid(child, 0)
    assert theirs and float(theirs) != ours
    assert values(rewards, [record("")]) == [ours], "the child's close left our worker alone"
