"""The sandbox's verdicts on hostile and honest programs, on whole data sets, as root and as another user."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import code_cases as cases
import pytest
from processes import interpreter_for

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

OUTSIDE = [
    Path("/tmp/groupwise_escape_probe.txt"),
    Path.home() / ".groupwise_escape_probe",
    Path(os.__file__).parent / "groupwise_probe.py",
]
OTHER_USER = 54321


def refused(outcomes: Any) -> list[Any]:
    """Those with another verdict than is acceptable."""
    return [outcome for outcome in outcomes if not outcome["accepted"]]


def children() -> set[str]:
    """Processes that this one has started and not waited for."""
    return {
        child
        for thread in os.listdir("/proc/self/task")
        for child in Path(f"/proc/self/task/{thread}/children").read_text().split()
    }


def check_invariants(before: set[str], memory: int) -> None:
    """Nothing left running, nothing written outside, this process alive and small."""
    assert children() <= before
    assert not [path for path in OUTSIDE if path.exists()]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100 << 10  # kB


def test_sandbox_cases_within_one_second_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPWISE_TEST_TOKEN", "secret")
    before, memory = children(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert refused(cases.run_all(cases.rows(cases.SANDBOX_CASES), at_once=4, most=1.0)) == []
    check_invariants(before, memory)


@pytest.mark.slow
def test_sandbox_cases_twice_eight_at_a_time() -> None:
    before, memory = children(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        assert refused(cases.run_all(cases.rows(cases.SANDBOX_CASES), at_once=8)) == []
        check_invariants(before, memory)


def run_as(user: int, path: Path, at_once: int, most: float) -> list[dict[str, Any]]:
    """The outcomes of the cases when somebody else runs them."""
    program, imports = interpreter_for(user)
    copy = Path("/tmp") / f"groupwise-cases-{os.getpid()}.jsonl.gz"  # where the other user can read
    shutil.copy(path, copy)
    helper = copy.with_suffix(".py")
    shutil.copy(cases.__file__, helper)
    try:
        done = subprocess.run(
            [program, str(helper), str(copy), str(at_once), str(most)],
            user=user,
            group=user,
            extra_groups=[],
            env={"PYTHONPATH": imports, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        copy.unlink()
        helper.unlink()
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_sandbox_cases_as_another_user_sample(tmp_path: Path) -> None:
    sample = tmp_path / "sample.jsonl.gz"
    with gzip.open(sample, "wt") as file:
        for case in cases.rows(cases.SANDBOX_CASES)[::3]:
            file.write(json.dumps(case) + "\n")
    outcomes = run_as(OTHER_USER, sample, 4, 1.0)
    assert len(outcomes) == 31
    assert refused(outcomes) == []


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_all_cases_as_another_user_twice() -> None:
    for path in (cases.SANDBOX_CASES, cases.OWN_CASES) * 2:
        assert refused(run_as(OTHER_USER, path, 8, 1000.0)) == []


@pytest.mark.parametrize("tasks", [cases.humaneval, cases.mbpp])
def test_forty_tasks(tasks: Any) -> None:
    """Twenty of each set: references pass, spoilt ones don't."""
    numbers = list(cases.FORTY)[::2]
    assert set(cases.verdicts(tasks("reference", numbers)).values()) == {"pass"}
    for kind in ("none", "perturbed"):
        assert "pass" not in cases.verdicts(tasks(kind, numbers)).values()


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [cases.humaneval, cases.mbpp])
def test_whole_sets_twice_under_load(tasks: Any) -> None:
    for kind in ("reference", "none", "perturbed"):
        first = cases.verdicts(tasks(kind), at_once=4)
        assert cases.verdicts(tasks(kind), at_once=8) == first
        if kind == "reference":
            assert set(first.values()) == {"pass"}
        else:
            assert "pass" not in first.values()
