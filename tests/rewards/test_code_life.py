"""No sandbox outlives the process that made it, even where that is killed and can do nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import interpreter_for, wait_until

from groupwise.rewards import code
from groupwise.rewards.code import watch

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

MAKER = """
import sys
from groupwise.rewards import code
code.run({program!r}, "assert True", limits=code.Limits(timeout_s=600), isolation=sys.argv[1])
"""
SLEEPER = "import os, time\nos.fork() or os.setsid()\ntime.sleep(1000)"
OTHER_USER = 54321
STARTING = (2, 3, 5, 6)
"""How many processes there are of a maker and its sandboxes at some moments before the program runs."""
PROCESSES = {"sandbox": 8, "process": 6}
"""The maker, three for the tests or one less without bubblewrap, as many for the program, and one that it forks."""


def living(processes: list[int]) -> Iterator[int]:
    """Those that have not ended."""
    for process in processes:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            yield process


@pytest.mark.parametrize("user", [os.geteuid(), OTHER_USER])
@pytest.mark.parametrize("isolation", PROCESSES)
def test_a_run_ends_with_the_process_that_asked_for_it(isolation: str, user: int) -> None:
    if user != os.geteuid() != 0:
        pytest.skip("only root can become another user")
    program, imports = interpreter_for(user)
    folder = Path(tempfile.mkdtemp(prefix="groupwise-life-"))  # in /tmp itself, where the other user can reach it
    folder.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": imports, "TMPDIR": str(folder)}
    source = MAKER.format(program=SLEEPER)
    command = [program, "-c", source, isolation]
    maker = subprocess.Popen(command, user=user, group=user, extra_groups=[], env=environment)
    below: list[int] = []
    try:
        wait_until(lambda: len(list(watch.tree(maker.pid))) >= PROCESSES[isolation])
        below = [process for process in watch.tree(maker.pid) if process != maker.pid]
        assert len(list(folder.iterdir())) == (2 if isolation == "process" else 0)
    finally:
        maker.kill()
        maker.wait()
    wait_until(lambda: not any(living(below)) and not any(folder.iterdir()))
    folder.rmdir()


@pytest.mark.parametrize("count", STARTING)
def test_a_sandbox_that_is_starting_ends_too(count: int) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER.format(program=SLEEPER), "sandbox"],
        env=environment,
        start_new_session=True,
    )
    try:
        while len(list(watch.tree(maker.pid))) < count and maker.poll() is None:
            pass
        below = [process for process in watch.tree(maker.pid) if process != maker.pid]
    finally:
        os.killpg(maker.pid, signal.SIGKILL)  # as a worker that takes too long is killed
        maker.wait()
    wait_until(lambda: not any(living(below)))


def test_the_first_process_of_a_sandbox_is_out_of_the_programs_reach() -> None:
    program = """
import os, signal
def reach():
    for attempt in (
        lambda: os.listdir("/proc/1/fd"),
        lambda: [os.open(f"/proc/1/fd/{n}", os.O_WRONLY) for n in range(64) if os.path.lexists(f"/proc/1/fd/{n}")][0],
        lambda: open("/proc/1/mem", "r+b"),
        lambda: os.readlink("/proc/1/root"),
    ):
        try:
            attempt()
            return "reached"
        except (OSError, IndexError):
            pass
    os.kill(1, signal.SIGSTOP)
    os.kill(1, signal.SIGKILL)
    return "refused"
"""
    assert code.run(program, "assert reach() == 'refused'").reason == ""


def test_without_a_sandbox_what_a_program_leaves_ends_with_it() -> None:
    before = set(watch.tree(os.getpid()))
    marker = f"groupwise-stray-{os.getpid()}"
    program = (
        f"import os, sys\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['{marker}', '1000'])\nprint(1)"
    )
    assert code.run(program, io_tests=[code.IOTest("", "1")], isolation="process").verdict == "pass"
    assert set(watch.tree(os.getpid())) <= before

    def strays() -> list[Path]:
        return [path for path in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in _read(path)]

    wait_until(lambda: not strays())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
