"""Cases in, verdicts out: order, memory and what becomes of lines that are no cases."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from groupwise.checking.cases import AHEAD, Verdict, field, verified


class Echo:
    """Says what it was given, after a while."""

    unjudged = "not_scored"

    def __init__(self) -> None:
        self.at_once, self.most_at_once, self.lock = 0, 0, threading.Lock()

    def judge(self, case: Mapping[str, Any]) -> Verdict:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(field(case, "wait", (int, float), "a number", 0.0))
        with self.lock:
            self.at_once -= 1
        return Verdict("right", field(case, "said", str, "a text"), 0.25, 0.5)

    def close(self) -> None: ...


def verdicts(*lines: str | bytes, workers: int = 2) -> list[dict[str, Any]]:
    return list(verified([line.encode() if isinstance(line, str) else line for line in lines], Echo(), workers))


def test_one_line_per_case_in_order_however_long_each_takes() -> None:
    judge = Echo()
    lines = [json.dumps({"id": n, "said": str(n), "wait": 0.05 if n % 5 == 0 else 0}).encode() for n in range(40)]
    found = list(verified(lines, judge, 3))
    assert [one["id"] for one in found] == list(range(40)) == [int(one["reason"]) for one in found]
    assert found[0] == {"id": 0, "verdict": "right", "reason": "0", "seconds": 0.25, "wall_seconds": 0.5}
    assert judge.most_at_once <= 3


def test_cases_are_read_only_as_they_are_needed() -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b'{"id": 1, "said": ""}'

    stream = verified(endless(), Echo(), 2)
    for _ in range(10):
        next(stream)
    stream.close()
    assert read <= 10 + AHEAD * 2


@pytest.mark.parametrize(
    ("line", "identity", "reason"),
    [
        ("{", None, "line 2: not JSON"),
        ("[1]", None, "line 2: [1] is no object"),
        ("NaN", None, "line 2: NaN is no object"),
        ("[" * 100_000, None, "line 2: not JSON"),
        (b'{"id": "\xff"}', None, "line 2: not UTF-8"),
        ('{"id": "b"}', "b", "line 2: there is no field 'said'"),
        ('{"id": 7, "said": null}', 7, "line 2: the field 'said' is null, not a text"),
        ('{"id": null, "said": ["x"]}', None, "line 2: the field 'said' is [\"x\"], not a text"),
        ('{"said": "", "wait": true}', None, "line 2: the field 'wait' is true, not a number"),
    ],
)
def test_a_line_that_is_no_case_gets_a_verdict_and_harms_no_other(line: str, identity: Any, reason: str) -> None:
    sound = '{"id": "a", "said": "yes"}'
    first, second, third = verdicts(sound, line, sound)
    assert first["reason"] == third["reason"] == "yes"
    assert second["verdict"] == "not_scored" and second["id"] == identity and second["reason"].startswith(reason)
    assert second["seconds"] == second["wall_seconds"] == 0


def test_blank_lines_are_skipped_and_counted_in_the_numbers_of_lines() -> None:
    (first, second) = verdicts("", '\ufeff{"id": 1, "said": "x"}', "  \n", "?")
    assert first["reason"] == "x" and second["reason"].startswith("line 4: ")
    assert verdicts() == []


def test_a_field_that_may_be_missing_may_be_null() -> None:
    missing, null = verdicts('{"id": 1, "said": "x"}', '{"id": 2, "said": "x", "wait": null}')
    assert missing["verdict"] == null["verdict"] == "right"
    (needed,) = verdicts('{"id": 3, "said": null}')
    assert needed["reason"] == "line 1: the field 'said' is null, not a text"
