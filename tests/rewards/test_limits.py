"""Limits of one call: CPU time, wall-clock time, memory; and a machine that fails too often."""

from __future__ import annotations

import pytest

from groupwise.errors import RewardError
from groupwise.rewards.workers.limits import LEAST, WINDOW, Limits, MachineFaults
from groupwise.rewards.workers.normalise import Outcome, fault
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target
from groupwise.types import Score

SCORED, FAILED = Outcome(Score(1.0)), fault("no server", "machine")


def test_waiting_costs_no_cpu_time_and_burning_it_does(pool, record):
    source = """
        import time

        def reward(record):
            end = time.monotonic() + 1.0
            while record.text == "burn" and time.process_time() < 60:
                pass
            time.sleep(max(0.0, end - time.monotonic()))
            return True
    """
    waited, burnt = pool(source, limits=Limits(0.5, 20.0)).score([record("wait"), record("burn")])
    assert waited.score.value == 1.0 and waited.cpu_seconds < 0.5 and waited.wall_seconds >= 1.0
    assert burnt.score.value is None and burnt.cpu_seconds == 0.5
    assert burnt.score.reason == "rewards.py:reward took more than 0.5 seconds of CPU time"


def test_cpu_time_counts_the_threads_of_a_worker(pool, record):
    source = """
        import hashlib, threading

        def burn():
            while True:
                hashlib.sha256(bytes(10**6))  # lets go of the interpreter's lock

        def reward(record):
            for _ in range(2):
                threading.Thread(target=burn, daemon=True).start()
            threading.Event().wait(60)
    """
    outcome = pool(source, limits=Limits(0.5, 50.0)).score([record("")])[0]
    assert "CPU time" in outcome.score.reason and outcome.wall_seconds < 40


def test_what_a_call_takes_includes_the_children_that_it_waited_for(pool, record):
    source = """
        import subprocess, sys

        def reward(record):
            subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"], check=True)
            return 1
    """
    assert pool(source).score([record("")])[0].cpu_seconds > 0.3


def test_a_memory_limit_makes_the_sample_not_scored_and_leaves_the_next_one_alone(pool, record):
    source = """
        def reward(record):
            return len(bytearray(int(record.text) * 2**20)) > 0
    """
    rewards = pool(source, limits=Limits(memory_mb=512))
    outcomes = rewards.score([record("2000"), record("100")])
    assert [outcome.score.value for outcome in outcomes] == [None, 1.0]
    assert "MemoryError" in outcomes[0].score.reason and outcomes[0].fault == "reward"


def test_a_worker_that_has_held_half_of_its_limit_is_followed_by_a_fresh_one(pool, record):
    source = """
        import os

        def reward(record):
            bytearray(int(record.text) * 2**20)
            return os.getpid()
    """
    ours = bytearray(400 * 2**20)  # what this process holds is no reason to replace a worker
    rewards = pool(source, limits=Limits(memory_mb=512))
    small, large, after = (outcome.score.value for outcome in rewards.score([record(n) for n in ("1", "300", "1")]))
    assert small == large != after
    assert rewards.counters.restarts == 0 and len(ours) > 0


def test_a_machine_that_fails_once_is_asked_again(pool, record, tmp_path):
    source = f"""
        import pathlib
        from groupwise.rewards.contract import Unavailable

        def reward(record):
            seen = pathlib.Path({str(tmp_path)!r}) / "seen"
            if record.text == "down" or not seen.exists():
                seen.touch()
                raise Unavailable("no server at 127.0.0.1")
            return 1
    """
    rewards = pool(source)
    up, down = rewards.score([record("up"), record("down")])
    assert (up.score.value, up.fault) == (1.0, "")
    assert (down.score.value, down.fault) == (None, "machine")
    assert down.score.reason == "rewards.py:reward: no server at 127.0.0.1"
    with pytest.raises(RewardError, match=r"the machine kept 21 of the last 27 completions .*: .*no server"):
        rewards.score([record("down")] * 20 + [record("up")] * 5)


def test_a_sample_that_ends_its_worker_is_no_fault_of_the_machine(pool, record):
    rewards = pool("import os\ndef reward(record): os._exit(3)")
    outcomes = rewards.score([record("")] * (LEAST + 1))
    assert {outcome.fault for outcome in outcomes} == {"reward"}


def test_the_rate_is_of_the_last_completions_and_needs_a_least_number():
    faults = MachineFaults()
    faults.see([FAILED] * (LEAST - 1))
    faults.stop_if_too_many("judge")
    faults.see([SCORED] * WINDOW)
    faults.see([FAILED] * (WINDOW // 5 - 1))
    faults.stop_if_too_many("judge")
    faults.see([FAILED])
    with pytest.raises(
        RewardError, match="reward 'judge': the machine kept 40 of the last 200 completions .* no server"
    ):
        faults.stop_if_too_many("judge")


def test_a_factory_is_called_once_with_its_settings(record, reward_file):
    path = reward_file(
        """
        made = []

        def make(least, word="x"):
            made.append(least)
            return lambda record: len(record.text) >= least and len(made) == 1
        """
    )
    with WorkerPool(Target(str(path), "make", '{"least": 2}')) as pool:
        assert [o.score.value for o in pool.score([record("a"), record("abc"), record("ab")])] == [0.0, 1.0, 1.0]
    with WorkerPool(Target(str(path), "make", '{"most": 2}')) as pool, pytest.raises(RewardError, match="most"):
        pool.describe()
