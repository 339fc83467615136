"""`groupwise verify`: cases from a file or a pipe, one line each, nothing else on standard output."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from groupwise.cli import app

MATHS: list[dict[str, Any]] = [
    {"id": "a", "gold": "1/2", "prediction": "so it is \\boxed{0.5}"},
    {"id": "b", "gold": "1/2", "prediction": "so it is \\boxed{0.6}"},
    {"id": "c", "gold": "see the figure", "prediction": "\\boxed{1}"},
    {"id": 4, "gold": 12, "prediction": "#### 12", "kind": "ignored"},
    {"id": None, "gold": "36", "prediction": "so far we have 36 and then we", "finish_reason": "length"},
]
PROGRAMS: list[dict[str, Any]] = [
    {"id": "right", "program": "def f(x): return x + 1", "tests": "assert f(1) == 2", "io_tests": [], "limits": {}},
    {"id": "wrong", "program": "def f(x): return x", "tests": "assert f(1) == 2"},
    {"id": "printed", "program": "print(int(input()) * 2)", "io_tests": [{"stdin": "21\n", "stdout": "42\n"}]},
    {"id": "pairs", "program": "print(int(input()) * 2)", "io_tests": [["21", "42"], ["1", "3"]]},
    {"id": "untested", "program": "x = 1", "tests": "", "io_tests": []},
    {"id": "slow", "program": "while True: pass", "tests": "assert f", "limits": {"timeout_s": 0.5, "memory_mb": 256}},
    {"id": "malformed", "program": "x = 1", "io_tests": ["21"]},
    {"id": "limit", "program": "x = 1", "limits": {"timeout_s": 0}},
]


def lines_of(cases: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases)


def verify(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments], input=stdin)


def verdicts(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_maths_cases_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(lines_of(MATHS) + "nothing\n", "utf-8")
    found = verdicts(verify("math", str(file), "--workers", "2"))
    assert [one["id"] for one in found] == ["a", "b", "c", 4, None, None]
    assert [one["verdict"] for one in found] == ["right", "wrong", "not_scored", "right", "wrong", "not_scored"]
    assert all(list(one) == ["id", "verdict", "reason", "seconds", "wall_seconds"] for one in found)
    assert found[0]["seconds"] > 0 and found[0]["wall_seconds"] > 0 and "0.5" in found[0]["reason"]
    assert found[-1]["reason"].startswith("line 6: not JSON")


def test_a_policy_is_a_setting_and_cases_may_come_through_a_pipe() -> None:
    case = lines_of([{"id": "p", "gold": "28\\%", "prediction": "\\boxed{0.28}"}])
    assert verdicts(verify("math", "-", stdin=case))[0]["verdict"] == "right"
    assert verdicts(verify("math", "-", "--set", "percent=strict", stdin=case))[0]["verdict"] == "wrong"


def test_a_wrong_finish_reason_is_no_case() -> None:
    case = lines_of([{"id": "p", "gold": "1", "prediction": "1", "finish_reason": "done"}])
    (found,) = verdicts(verify("math", "-", stdin=case))
    assert found["verdict"] == "not_scored" and "'done', not stop, length or aborted" in found["reason"]


def test_programs() -> None:
    found = {one["id"]: one for one in verdicts(verify("code", "-", "--workers", "2", stdin=lines_of(PROGRAMS)))}
    assert {name: one["verdict"] for name, one in found.items()} == {
        "right": "pass", "wrong": "fail", "printed": "pass", "pairs": "fail", "untested": "error", "slow": "timeout",
        "malformed": "error", "limit": "error",
    }  # fmt: skip
    assert found["untested"]["reason"] == "no tests"
    assert found["slow"]["seconds"] >= 0.5 and found["slow"]["wall_seconds"] >= 0.5
    assert "io_tests" in found["malformed"]["reason"] and "not above 0" in found["limit"]["reason"]


def test_nothing_but_verdicts_is_on_standard_output_and_a_reader_may_leave(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(lines_of([{**MATHS[0], "id": number, "prediction": "\\boxed{1}" * 1000} for number in range(2000)]))
    groupwise = f"{sys.executable} -c 'from groupwise.cli import app; app()'"
    command = f"{groupwise} verify math {file} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["id"] == 0 and done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["math", "none.jsonl"],
            "none.jsonl can't be read: No such file or directory; give a file of JSON lines, or -",
        ),
        (["maths", "-"], "there is no verifier 'maths'; did you mean math?"),
        (["judge", "-"], "there is no verifier 'judge'; use one of math, code"),
        (["math", "."], ". can't be read: Is a directory"),
        (["math", "-", "--set", "percents=strict"], "--set percents: there is no such setting; did you mean percent?"),
        (["math", "-", "--set", "percent=often"], "--set percent = 'often' won't do; input should be"),
        (["math", "-", "--set", "percent"], "--set 'percent' is not key=value"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments: list[str], message: str) -> None:
    result = verify(*arguments, stdin="")
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert message in line


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_R018_programs_without_a_sandbox_are_announced_on_standard_error() -> None:
    case = lines_of(PROGRAMS[:1])
    weaker = verify("code", "-", "--set", "isolation=process", stdin=case)
    assert [one["verdict"] for one in verdicts(weaker)] == ["pass"]
    assert weaker.stderr.startswith("verify code runs programs WITHOUT a sandbox") and weaker.stderr.count("\n") == 1
    assert verify("code", "-", stdin=case).stderr == ""


def test_no_cases_give_no_lines() -> None:
    assert verdicts(verify("math", "-", stdin="\n\n")) == []
