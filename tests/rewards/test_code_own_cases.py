"""Programs written to break the sandbox, and honest ones that a suspicious sandbox might refuse.

A case says which verdicts are right. Most attacks on the machine are probes: the program answers wrongly (`fail`) where
the attack worked, so that only a sandbox that holds lets it pass.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupwise.rewards import code
from groupwise.rewards.code.box import BoxError
from groupwise.rewards.code.runner import Runner
from groupwise.rewards.code.setup import Setup

DATA = Path(__file__).parents[1] / "data" / "code_cases_own.jsonl.gz"
LONG = frozenset(["weapon", "time", "memory", "process", "flood", "crash", "forge", "syscall", "secret"])
"""Kinds with cases that burn CPU time or memory, or try many things."""
MARKS = re.compile(r"ca_|fill\d|i\d+$|.*probe$|hard$|seen_by_first_run$|(math|unittest|sitecustomize|conftest)\.py$")
"""What cases call the files that they write wherever they can."""
GROWTH_KB = 30_000

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap isn't installed")

with gzip.open(DATA, "rt", encoding="utf-8") as _lines:
    CASES = [json.loads(line) for line in _lines]
QUICK = [case for case in CASES if case["kind"] not in LONG and case["limits"]["timeout_s"] >= 5]


def judge(case: dict[str, Any]) -> code.Result:
    """The verdict on a case; the hang guard is generous, since many may run at once."""
    limits = code.Limits(**case["limits"])
    pairs = [code.IOTest(pair["stdin"], pair["stdout"]) for pair in case["io_tests"]]
    result = code.run(case["program"], case["tests"], pairs, limits)
    runs = max(1, len(pairs) + bool(case["tests"].strip()))
    assert result.wall_seconds < runs * limits.wall_seconds + 30, "no limit ended it"
    return result


def descendants() -> list[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def marks() -> set[str]:
    """Files of the cases, where they must not be."""
    places = ("/", "/tmp", "/dev/shm", "/usr", "/usr/lib", "/usr/bin", "/var/tmp", os.path.dirname(os.__file__), ".")
    return {f"{place}/{name}" for place in places for name in os.listdir(place) if MARKS.match(name)}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No process, and no file outside, that wasn't there before."""
    processes, files = set(descendants()), marks()
    yield
    for _ in range(100):
        left = set(descendants()) - processes
        if not left:
            break
        time.sleep(0.05)
    assert not left
    assert marks() <= files


def wrong(cases: list[dict[str, Any]], at_once: int) -> list[str]:
    """The cases with a verdict that they don't accept."""
    with ThreadPoolExecutor(at_once) as threads:
        results = list(threads.map(judge, cases))
    return [
        f"{case['id']} ({case['note']}): {result.verdict}: {result.reason}"
        for case, result in zip(cases, results, strict=True)
        if result.verdict not in case["accept"]
    ]


def test_R031_R030_R018_cases_that_take_no_time(nothing_left: None) -> None:
    assert wrong(QUICK, at_once=2) == []


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("spoilt", ["interpreter", "mount"])
def test_a_sandbox_that_does_not_start_is_no_wrong_answer(spoilt: str, spare: bool, nothing_left: None) -> None:
    good = Setup.make()
    setup = replace(good, interpreter="/nonexistent/python")
    if spoilt == "mount":
        setup = replace(good, mounts=(good.mounts[0], "--ro-bind", "/nonexistent", "/x", *good.mounts[1:]))
    with Runner(spare=spare) as runner:
        runner._setup = setup
        for tests, pairs in (("assert f() == 1", []), ("", [code.IOTest("", "1")])) * 2:
            with pytest.raises(BoxError, match="nonexistent"):
                runner.run("print(1)", tests, pairs)


@pytest.mark.slow
def test_all_cases_twice_eight_at_a_time(nothing_left: None) -> None:
    assert wrong(CASES, at_once=8) == []
    assert wrong(CASES, at_once=8) == []


@pytest.mark.slow
def test_no_case_fills_the_memory_of_the_parent_or_the_table_of_processes(nothing_left: None) -> None:
    for case in CASES:
        if not {"parent_memory_bounded", "process_count_bounded"}.intersection(case["invariants"]):
            continue
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before, done, counts = peak_kb(), threading.Event(), [0]
        counter = threading.Thread(target=count_processes, args=(done, counts))
        counter.start()
        judge(case)
        done.set()
        counter.join()
        assert peak_kb() - before < GROWTH_KB, case["id"]
        assert max(counts) < 200, case["id"]


def count_processes(done: threading.Event, counts: list[int]) -> None:
    """Append how many processes there are below this one, again and again."""
    while not done.wait(0.1):
        counts.append(len(descendants()))


def peak_kb() -> int:
    """The most memory that this process has held."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is about another user than root, which the other tests are then")
def test_all_cases_as_a_normal_user(nothing_left: None, tmp_path: Path) -> None:
    interpreter = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin")
    if interpreter is None:
        pytest.skip("root's own interpreter can't be read by others, and there is none in /usr/bin")
    script = tmp_path / "as_user.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:0] = [{str(Path(code.__file__).parents[3])!r}, {str(Path(pytest.__file__).parents[1])!r}]\n"
        f"sys.path.append({str(Path(__file__).parent)!r})\n"
        "import test_code_own_cases as own\n"
        "bad = own.wrong(own.CASES, 4)\n"
        "print('\\n'.join(bad))\n"
        "sys.exit(bool(bad))\n"
    )
    shutil.copytree(tmp_path, folder := Path(f"/tmp/groupwise-user-{os.getpid()}"))
    folder.chmod(0o755)
    try:
        user = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--"]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder)}
        ran = subprocess.run(
            [*user, interpreter, str(folder / script.name)], env=environment, cwd=folder, capture_output=True, text=True
        )
    finally:
        shutil.rmtree(folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
