"""`groupwise check-task`: what it finds, and with what status it ends."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from groupwise.cli import app

RUN = """
steps = 1
model = { name = "builtin:tiny-char", dtype = "float32" }
algorithm = "grpo"
task = { name = "data", path = "rows.jsonl" }
prompts = { per_step = 2 }
sampling = { group_size = 4, max_tokens = 3 }
evaluation = { prompts = 0 }
"""
ROWS: list[dict[str, Any]] = [{"id": f"r{n}", "prompt": f"{n}+1=", "answer": str(n + 11)} for n in range(8)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(rewards: str, rows: list[dict[str, Any]] | None = None, *options: str) -> tuple[int, str]:
    """Status, and what is printed, in one line."""
    Path("mine.toml").write_text(f"{RUN}rewards = {rewards}\n")
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows or ROWS))
    result = CliRunner().invoke(app, ["check-task", "mine.toml", *(options or ("--no-model",))])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def function(body: str) -> str:
    Path("reward.py").write_text(f"def reward(record):\n    gold = record.columns['answer']\n    {body}\n")
    return '[{ name = "function", file = "reward.py", workers = 1 }]'


@pytest.mark.parametrize("name", ["exact", "number"])
def test_a_sound_verifier_and_sound_rows_pass(name: str) -> None:
    status, text = check(f'[{{ name = "{name}" }}]')
    assert status == 0 and text.endswith("nothing was found that would teach the model something wrong")
    assert f"{name} on 8 rows" in text and "another row's answer │ - │ 8 │" in text and "WRONG" not in text


def test_R011_every_bad_gold_is_listed_and_the_others_are_still_checked() -> None:
    bad = [{"id": f"bad{n}", "prompt": f"{n}?", "answer": "see figure"} for n in range(5)]
    status, text = check('[{ name = "number" }]', [*ROWS[:4], *bad, *ROWS[4:]])
    assert status == 1
    for row in bad:
        assert f"row {row['id']}: reward 'number'" in text
    assert "WRONG: stage 0-grpo: 5 of 13 rows can't be used, for the reasons above" in text
    assert "number on 8 rows" in text and "gold, in a box │ 8 │ - │" in text


def test_rows_that_are_bad_for_one_reason_share_a_line() -> None:
    status, text = check('[{ name = "math", column = "gold" }]', [{"id": f"r{n}", **row} for n, row in enumerate(ROWS)])
    assert status == 1 and text.count("needs the column 'gold'") == 1
    assert "8 rows (r0, r1, r2, r3, r4, ...): reward 'math' needs the column 'gold'; the row lacks it" in text
    assert "on 0 rows" not in text and "note" not in text and "WRONG: stage 0-grpo: 8 of 8 rows" in text


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_solutions_are_announced_and_the_bad_ones_listed() -> None:
    good = {"prompt": "add", "tests": "assert add(1, 2) == 3", "code": "def add(a, b): return a + b"}
    bad = good | {"code": "def add(a, b): return a - b"}
    rows = [{"id": f"r{n}", **(bad if n % 2 else good)} for n in range(4)]
    status, text = check('[{ name = "code", solution_column = "code" }]', rows)
    assert status == 1 and "reward 'code': checking 4 solutions, and an empty program on each row" in text
    assert "2 rows (r1, r3): reward 'code': its solution fails: the last code block: fail" in text
    status, text = check('[{ name = "code", isolation = "process" }]', rows)
    assert "reward 'code' runs programs WITHOUT a sandbox" in text


def test_rows_that_are_all_bad_end_with_a_verdict_too() -> None:
    status, text = check('[{ name = "number" }]', [{"prompt": "?", "answer": "see figure"}], "--model")
    assert status == 1 and "1 of 1 rows can't be used" in text


def test_a_verifier_that_refuses_golds_is_found() -> None:
    status, text = check(function("return record.text == gold and gold != '14'"))
    assert status == 0  # a function names no gold of its own, so a refused form tells nothing
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    status, text = check(function("return record.text == gold and gold != '14'"), rows)
    assert status == 1 and "reward refuses the gold answer of 1 of 8 rows in its written form" in text


@pytest.mark.parametrize("body", ["return True", "return record.text in gold"])
def test_a_verifier_that_accepts_nothing_as_an_answer_is_found(body: str) -> None:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    status, text = check(function(body), rows)
    assert status == 1 and "reward calls the empty answer right in 8 of 8 rows" in text


def test_a_reward_that_pays_more_for_nothing_than_for_the_gold_is_found() -> None:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    body = "from groupwise import Score; return Score(1 - len(record.text) / 1000, record.text == gold)"
    status, text = check(function(body), rows)
    assert status == 1 and "WRONG: stage 0-grpo: saying nothing pays 1, and the bare gold answer 0.998" in text


def test_a_verifier_that_accepts_spoilt_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from groupwise.rewards import number

    sound = number.find_answer

    def first_digit(text: str, **options: Any) -> Any:
        found = sound(text, **options)
        return found if found.value is None else type(found)(abs(found.value) // 10 * 10, found.text, found.rule)

    monkeypatch.setattr(number, "find_answer", first_digit)
    rows = [{**row, "answer": str(10 * (n + 1))} for n, row in enumerate(ROWS)]
    status, text = check('[{ name = "number" }]', rows)
    assert status == 1
    assert "number calls 8 of 8 answers right that were spoilt (a digit changed)" in text
    assert "number calls 8 of 8 answers right that were spoilt (the sign changed)" in text
    assert "(another row's answer)" not in text


def test_what_cannot_be_scored_is_counted_with_its_reason() -> None:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    status, text = check(function("return record.text == gold if record.text else 1 / 0"), rows)
    assert status == 0 and "nothing │ - │ - │ 8 │" in text


def test_the_model_shows_how_much_signal_there_is() -> None:
    body = "return sum(map(ord, record.text)) % 2 == 0 if record.text else False"
    status, text = check(function(body), None, "--prompts", "6")
    assert status == 0
    assert "The model on 6 prompts x 4 completions" in text and "pass rate" in text
    assert "│ 4 │" in text and "│ 64 │" in text and "seconds of scoring per completion" in text


def test_a_stage_without_rewards_is_passed_over() -> None:
    rows = [{**row, "completion": row["answer"]} for row in ROWS]
    status, text = check("[]", rows, "--no-model", "--set", "algorithm=sft")
    assert status == 0 and text == "no stage has rewards"


def test_what_cannot_be_checked_ends_with_status_2() -> None:
    status, text = check('[{ name = "function", file = "none.py" }]')
    assert status == 2
