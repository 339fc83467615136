"""Workers end with the trainer, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from processes import group_lives, wait_until

TRAINER = """
import sys
from groupwise.rewards.contract import Record
from groupwise.rewards.workers.limits import Limits
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target

pool = WorkerPool(Target(sys.argv[1], "reward"), workers=2, limits=Limits(600.0, 600.0))
records = [Record("p", "p", "", None, {}, text, text, (), "stop") for text in ("one", "two")]
pool.score(records)
"""

REWARD = """
import os, pathlib, subprocess

def reward(record):
    part = pathlib.Path(__file__).with_name(record.text + ".part")
    part.write_text(str(os.getpgrp()))
    part.rename(part.with_suffix(".group"))
    subprocess.run(["sleep", "600"]) if record.text == "one" else None
    while True:
        pass
"""


@pytest.mark.parametrize("end", ["killed", "terminated"])
def test_R101_no_worker_outlives_its_trainer(tmp_path, end):
    (tmp_path / "reward.py").write_text(REWARD)
    (tmp_path / "trainer.py").write_text(TRAINER)
    command = [sys.executable, str(tmp_path / "trainer.py"), str(tmp_path / "reward.py")]
    trainer = subprocess.Popen(command)
    files = [tmp_path / "one.group", tmp_path / "two.group"]
    try:
        wait_until(lambda: all(file.exists() for file in files))
        groups = [int(file.read_text()) for file in files]
        assert all(group_lives(group) for group in groups)
    finally:
        trainer.send_signal(signal.SIGKILL if end == "killed" else signal.SIGTERM)
        trainer.wait()
    for group in groups:
        wait_until(lambda group=group: not group_lives(group))
    assert len(set(groups)) == 2 and os.getpgrp() not in groups
