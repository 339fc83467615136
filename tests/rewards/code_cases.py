"""Runs cases of the code sandbox: a helper of the tests, and a program, so that another user can run it.

    python code_cases.py CASES.jsonl.gz AT_ONCE [SECONDS]

prints one JSON line per case with `id`, `verdict`, `reason` and whether it is `accepted`. SECONDS bounds the CPU limit
of those that may time out.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from groupwise.rewards import code

DATA = Path(__file__).parent.parent / "data"
SANDBOX_CASES = DATA / "code" / "sandbox_cases.jsonl.gz"
OWN_CASES = DATA / "code_cases_own.jsonl.gz"
FORTY = range(0, 400, 10)
"""Places in a set of which a fixed sample is taken, wrapped around its length."""

PERTURBED = """
def _wrong(value):
    if isinstance(value, bool): return not value
    if isinstance(value, (int, float)): return value + 1
    if isinstance(value, str): return value + "x"
    if isinstance(value, (list, tuple)): return value + type(value)([None])
    if isinstance(value, dict): return {**value, "x": 1}
    if isinstance(value, set): return value | {"x"}
    return 0 if value is None else None
def _perturbed(function):
    return lambda *a, **k: _wrong(function(*a, **k))
"""


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of cases or tasks."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def run_case(case: dict[str, Any], most: float = 1000.0) -> code.Result:
    """What comes of one case."""
    limits = case["limits"]
    pairs = [code.IOTest(pair["stdin"], pair["stdout"]) for pair in case["io_tests"] or ()]
    seconds = limits["timeout_s"] if "timeout" not in case["accept"] else min(limits["timeout_s"], most)
    given = code.Limits(seconds, limits["memory_mb"])
    return code.run(case["program"], case["tests"] or "", pairs, given)


def run_all(cases: Sequence[dict[str, Any]], at_once: int, most: float = 1000.0) -> Iterator[dict[str, Any]]:
    """One outcome per case, in order."""
    with ThreadPoolExecutor(at_once) as threads:
        for case, result in zip(cases, threads.map(lambda case: run_case(case, most), cases), strict=True):
            yield {
                "id": case["id"],
                "verdict": result.verdict,
                "reason": result.reason,
                "accepted": result.verdict in case["accept"],
            }


def humaneval(kind: str, numbers: Iterable[int] | None = None) -> Iterator[tuple[str, str, str, str]]:
    """Id, program, tests and entry point of its tasks; `kind` is `reference`, `none` or `perturbed`."""
    for row in _some(rows(DATA / "code" / "humaneval.jsonl.gz"), numbers):
        name = row["entry_point"]
        body = "    return None\n" if kind == "none" else row["canonical_solution"]
        program = row["prompt"] + body
        if kind == "perturbed":
            program += PERTURBED + f"{name} = _perturbed({name})\n"
        yield row["task_id"], program, row["test"], name


def mbpp(kind: str, numbers: Iterable[int] | None = None) -> Iterator[tuple[str, str, str, str]]:
    """The same of MBPP's tasks, whose set-up runs after the program."""
    for row in _some(rows(DATA / "code" / "mbpp.jsonl.gz"), numbers):
        tests = "\n".join(row["test_list"])
        called = [n for n in _functions(row["code"]) if f"{n}(" in tests.replace(" (", "(")]
        program = row["code"]
        if kind == "none":
            program = "\n".join(f"def {name}(*a, **k): return None" for name in called)
        if kind == "perturbed":
            program += PERTURBED + "".join(f"{name} = _perturbed({name})\n" for name in called)
        yield str(row["task_id"]), program, row["test_setup_code"] + "\n" + tests, ""


def verdicts(tasks: Iterable[tuple[str, str, str, str]], at_once: int = 4) -> dict[str, str]:
    """The verdict of every task."""

    def one(task: tuple[str, str, str, str]) -> tuple[str, str]:
        name, program, tests, entry = task
        return name, code.run(program, tests, limits=code.Limits(timeout_s=20), entry_point=entry).verdict

    with ThreadPoolExecutor(at_once) as threads:
        return dict(threads.map(one, tasks))


def _some(all_rows: list[dict[str, Any]], numbers: Iterable[int] | None) -> list[dict[str, Any]]:
    return all_rows if numbers is None else [all_rows[number % len(all_rows)] for number in numbers]


def _functions(source: str) -> list[str]:
    return [line[4:].split("(")[0].strip() for line in source.splitlines() if line.startswith("def ")]


if __name__ == "__main__":
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1000.0
    for outcome in run_all(rows(Path(sys.argv[1])), int(sys.argv[2]), seconds):
        print(json.dumps(outcome), flush=True)
