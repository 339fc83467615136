"""`groupwise audit`: what it says of recorded completions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledgers import Said, by_character, write_run
from typer.testing import CliRunner, Result

from groupwise.cli import app
from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import ModelSettings
from groupwise.telemetry import ledger
from groupwise.types import Score


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def audited(folder: Path, *options: str) -> dict[str, Any]:
    """The report as JSON."""
    result = invoke(folder, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def run_of_parts(folder: Path, form: Callable[[float], float], accuracy: Callable[[float], float]) -> Path:
    """Sixty steps of a group of twelve, whose two parts are earned with these probabilities as the run goes on."""
    draws = random.Random(0)

    def said(when: float) -> Said:
        parts = {"format": float(draws.random() < form(when)), "accuracy": float(draws.random() < accuracy(when))}
        return Said("abcdef", Score(sum(parts.values()), bool(parts["accuracy"]), "why", parts))

    steps = [[[said(step / 59) for _ in range(12)]] for step in range(60)]
    write_run(folder, steps, by_character)
    return folder


def test_R053_the_part_that_is_hacked_is_named(tmp_path: Path) -> None:
    folder = run_of_parts(tmp_path / "run", lambda when: 0.2 + 0.8 * when, lambda when: 0.3 - 0.28 * when)
    (stage,) = audited(folder)["stages"]
    assert stage["gamed"]["part"] == "format" and "accuracy" in stage["gamed"]["fallen"]
    assert {part["name"]: round(part["weight"], 6) for part in stage["parts"]} == {"format": 1.0, "accuracy": 1.0}
    shown = invoke(folder).output
    assert "REWARD HACKING: format explains" in shown and "fitted weight" in shown


def test_R053_learning_the_task_is_not_hacking(tmp_path: Path) -> None:
    folder = run_of_parts(tmp_path / "run", lambda when: 0.5, lambda when: 0.1 + 0.6 * when)
    (stage,) = audited(folder)["stages"]
    assert stage["gamed"] is None and stage["remarks"] == []
    shares = {part["name"]: part["share_of_gain"] for part in stage["parts"]}
    assert shares["accuracy"] > 0.8 and "HACKING" not in invoke(folder).output


def test_a_part_that_explains_the_gain_while_no_more_is_right_is_said(tmp_path: Path) -> None:
    folder = run_of_parts(tmp_path / "run", lambda when: 0.1 + 0.8 * when, lambda when: 0.5)
    (stage,) = audited(folder)["stages"]
    assert stage["gamed"] is None
    (remark,) = stage["remarks"]
    assert remark.startswith("format explains") and remark.endswith("and no more completions are right")


def test_what_could_not_be_scored_or_read_is_counted_by_quarter_and_kind(tmp_path: Path) -> None:
    sound, hung = (
        Score(1.0, True, "'4', as the last number; the gold is 4"),
        Score(None, None, "grade took 5.2 seconds"),
    )
    unread = Score(0.0, False, "no number; the gold is 17")
    steps = [[[Said("4", sound), Said("x", unread if step < 4 else sound), Said("y", hung)]] for step in range(8)]
    write_run(tmp_path / "run", steps, by_character)
    (stage,) = audited(tmp_path / "run")["stages"]
    assert stage["not_scored"] == pytest.approx(1 / 3)
    assert stage["unread_by_quarter"] == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3])
    assert stage["reasons"] == [["grade took N seconds", 8], ["no number; the gold is N", 4]]
    assert any("could not be scored or read, most often: grade took N seconds" in text for text in stage["remarks"])


def test_what_is_said_fits_80_columns_and_breaks_at_words(tmp_path: Path) -> None:
    why = "the program could not be run since the sandbox that it needs was not there on this machine at the time"
    odd = "neither the gold nor the answer is something that can be read as a number of any notation"
    form, accuracy = Score(1.0, True, odd, {"form": 1.0}), Score(None, None, f"{why}: {odd}", {"form": 0.0})
    group = [Said("x", form, "length"), Said("y", accuracy), Said("z", Score(0.0, False, odd, {"form": 0.0}))]
    write_run(tmp_path / "run", [[group]] * 9, by_character)
    output = invoke(tmp_path / "run", "--with", "exact").output
    assert "\n  9 x the program could not be run since the sandbox that it needs was not there\n      on this" in output
    assert why in " ".join(output.split()) and max(map(len, output.splitlines())) <= 80


def test_drift_of_length_and_repetition_is_said(tmp_path: Path) -> None:
    def text(step: int) -> str:
        return "one two three four five " * (1 if step < 4 else 6)

    steps = [[[Said(text(step), Score(0.5)), Said("other words", Score(0.0))]] for step in range(12)]
    write_run(tmp_path / "run", steps, by_character)
    (stage,) = audited(tmp_path / "run")["stages"]
    assert any(remark.startswith("completions went from 18 to 78 tokens") for remark in stage["remarks"])
    assert any(remark.startswith("more of the text repeats itself: 0%") for remark in stage["remarks"])


def test_a_short_run_says_that_it_is_too_short(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [[[Said("4", Score(1.0, True))]]] * 3, by_character)
    (stage,) = audited(tmp_path / "run")["stages"]
    assert stage["changes"] == [] and stage["remarks"] == ["3 steps are too few to tell a change from chance"]


def test_the_most_suspicious_come_first_and_each_text_once(tmp_path: Path) -> None:
    right, wrong = Score(1.0, True, "fine"), Score(0.0, False, "not it")
    attack = "class A:\n    def __eq__(self, other): return True"
    usual = [Said(f"long reasoning {n}, so the answer is {n}", right if n % 2 else wrong) for n in range(6)]
    odd = [Said(attack, right), Said("so the answer is 3 and then", right, "length")]
    write_run(tmp_path / "run", [[[*usual, *odd]]] * 9, by_character)
    (stage,) = audited(tmp_path / "run")["stages"]
    first, second = stage["suspects"]
    assert first["completion"] == attack and first["points"] >= 4 and "__eq__" in first["why"][0]
    assert second["completion"] == odd[1].text and second["why"] == ["right, but cut off at the token limit"]
    assert "the 2 completions to read first" in invoke(tmp_path / "run").output


def test_improbable_completions_that_were_paid_are_found_in_the_recorded_log_probs(tmp_path: Path) -> None:
    right, wrong = Score(1.0, True, "fine"), Score(0.0, False, "not it")
    usual = [Said("the answer is 4", right), Said("the answer is 5", wrong)]
    odd = Said("the answer is four", right, log_prob=-9.0)
    write_run(tmp_path / "run", [[usual]] * 20 + [[[odd, *usual]]], by_character)
    (stage,) = audited(tmp_path / "run")["stages"]
    (suspect,) = stage["suspects"]
    assert suspect["completion"] == odd.text and "improbable: -9.00 nats per token" in suspect["why"][0]


def test_two_graders_are_compared(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(ModelSettings(name="builtin:tiny-char"), lambda line: None)
    stop = int(tokenizer.eos_token_id)

    def ids(text: str) -> list[int]:
        return [*tokenizer(text, add_special_tokens=False)["input_ids"], stop]

    columns = {"answer": "7"}
    group = [
        Said("7", Score(1.0, True, "is the gold"), columns=columns),
        Said("07", Score(0.0, False, "'07' is not '7'")),
        Said("8", Score(0.0, False, "'8' is not '7'")),
        Said("=", Score(None, None, "hung")),
    ]
    write_run(tmp_path / "run", [[group]] * 5, ids)
    opinion = audited(tmp_path / "run", "--with", "number")["second_opinion"]
    assert opinion["verdicts"] == {"right / right": 5, "wrong / right": 5, "wrong / wrong": 5, "not scored / wrong": 5}
    assert opinion["share"] == pytest.approx(1 / 3) and opinion["judged"] == 20
    first = opinion["disagreements"][0]
    assert (first["completion"], first["recorded"], first["second"]) == ("07", "wrong", "right")
    assert "'07', as the last number" in first["second_reason"]
    text = " ".join(invoke(tmp_path / "run", "--with", "number", "--most", "8").output.split())
    assert "number on 8 recorded completions: it disagrees on" in text
    exact = audited(tmp_path / "run", "--with", "exact", "--set", "column=answer")["second_opinion"]
    assert exact["disagreements"] == []


def test_a_second_grader_that_can_judge_nothing_says_so_and_why(tmp_path: Path) -> None:
    group = [Said("7", Score(1.0, True, "is the gold"), columns={"answer": "7"})] * 2
    write_run(tmp_path / "run", [[group]], by_character)
    opinion = audited(tmp_path / "run", "--with", "number", "--set", "column=gold")["second_opinion"]
    assert opinion["share"] is None and opinion["verdicts"] == {"right / not scored": 2}
    assert opinion["reasons"] == [["the gold None can't be read as a number", 2]]
    text = " ".join(invoke(tmp_path / "run", "--with", "number", "--set", "column=gold").output.split())
    assert "number on 2 recorded completions: none has a verdict of both" in text
    assert "2 x not scored: the gold None can't be read as a number" in text


def test_a_real_run_can_be_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = [
        "steps=1",
        "sampling.group_size=2",
        "sampling.max_tokens=3",
        "evaluation.prompts=0",
        "prompts.per_step=2",
    ]
    Path("mine.toml").write_text('steps = 1\nmodel = "builtin:tiny-char"\ntask = "sums"\nalgorithm = "grpo"\n')
    overrides = [word for option in options for word in ("--set", option)]
    assert CliRunner().invoke(app, ["train", "mine.toml", "--out", "run", *overrides]).exit_code == 0
    report = audited(Path("run"), "--with", "exact")
    (stage,) = report["stages"]
    assert stage["stage"] == "0-grpo" and stage["completions"] == 4
    assert report["second_opinion"]["disagreements"] == [] and report["second_opinion"]["judged"] == 4


def test_a_ledger_of_demonstrations_has_nothing_to_audit(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [[[Said("4", Score(1.0))]]], by_character)
    file = ledger.file_of(folder.rollouts, 1)
    (group,) = ledger.read_groups(file)
    bare = type(group)(group.id, group.prompt, group.completions, (None,))
    ledger.write(file, 1, "0-sft", [bare], [["4"]], {}, {})
    assert audited(tmp_path / "run") == {"stages": [], "second_opinion": None}
    assert invoke(tmp_path / "run").output == "no stage of this run scored completions\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "holds no recorded completions; give the folder of a run that trained"),
        (["--with", "maths"], "there is no grader 'maths'; use one of"),
        (["--with", "number", "--set", "colum=x"], "--set colum: there is no such setting; did you mean column?"),
        (["--set", "column=x"], "--set is for the grader that --with names"),
    ],
)
def test_what_cannot_be_audited_is_said_in_one_line(tmp_path: Path, options: list[str], message: str) -> None:
    folder = write_run(tmp_path / "run", [[[Said("4", Score(1.0))]]] if options else [], by_character)
    result = invoke(folder.path, *options)
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert message in line


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    result = invoke(tmp_path)
    assert result.exit_code == 2 and "holds no run (no run.toml)" in result.stderr
