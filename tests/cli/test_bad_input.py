"""Bad input ends in one line that says what, which value and what to do, with status 2, before a model is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from groupwise.cli import app
from groupwise.models.builtin import builtin_folder

RUN = """steps = 1
model = { name = "builtin:tiny-char", dtype = "float32" }
algorithm = "grpo"
task = { name = "data", path = "rows.jsonl" }
prompts = { per_step = 2 }
sampling = { group_size = 2, max_tokens = 3 }
evaluation = { prompts = 0 }
rewards = [{ name = "exact" }]

[optimizer]
learning_rate = 1e-4
"""
ROWS: list[dict[str, Any]] = [{"prompt": f"{n}+1=", "answer": str(n + 1)} for n in range(4)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a sound run file and rows, in which no model can be loaded."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(RUN)
    rows(ROWS)

    def load_model(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    for place in ("api", "preview", "exporting"):
        monkeypatch.setattr(f"groupwise.training.{place}.load_model", load_model)


def rows(content: list[Any]) -> None:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))


def edit(old: str, new: str) -> None:
    assert old in RUN
    Path("mine.toml").write_text(RUN.replace(old, new))


def refused(*arguments: str) -> str:
    """The one line that a command ends with."""
    result = CliRunner().invoke(app, list(arguments or ("train", "mine.toml", "--out", "out")))
    assert result.exit_code == 2, (result.output, result.exception)
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert line.startswith("error: ") and "; " in line
    assert "Traceback" not in result.output
    assert not Path("out/run.toml").exists() or "holds a run" in line
    return line.removeprefix("error: ")


def test_the_sound_run_gets_as_far_as_the_model() -> None:
    result = CliRunner().invoke(app, ["train", "mine.toml", "--out", "out"])
    assert isinstance(result.exception, AssertionError) and str(result.exception) == "the model was loaded"
    assert not Path("out").exists()


def test_a_misspelt_key() -> None:
    edit("learning_rate", "learnin_rate")
    assert refused() == "mine.toml:11: optimizer.learnin_rate is not a setting; did you mean learning_rate?"


def test_a_wrong_type() -> None:
    edit("1e-4", '"fast"')
    assert refused().startswith(
        "mine.toml:11: optimizer.learning_rate = 'fast' won't do; input should be a valid number"
    )


def test_an_algorithm_that_is_not_known() -> None:
    edit('"grpo"', '"grop"')
    assert refused() == "mine.toml:3: algorithm.name = 'grop' is not known; did you mean grpo?"


def test_R038_a_group_of_one() -> None:
    edit("group_size = 2", "group_size = 1")
    assert "sampling.group_size = 1 gives grpo no group to compare within; use 2 or more" in refused()


def test_a_run_file_that_is_not_there() -> None:
    message = refused("train", "mein.toml")
    assert message.startswith("there is no run file or packaged run 'mein.toml'; did you mean mine.toml?")


def test_toml_that_cannot_be_read() -> None:
    edit("1e-4", "")
    assert refused().startswith("mine.toml is not valid TOML: Invalid value (at line 11")


def test_data_that_is_not_there() -> None:
    edit('"rows.jsonl"', '"row.jsonl"')
    message = refused()
    assert "row.jsonl" in message and "rows.jsonl" in message


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_R093_data_without_rows(content: str) -> None:
    Path("rows.jsonl").write_text(content)
    message = refused()
    assert "rows.jsonl' holds no rows; give a file or split with at least one row" in message


def test_data_that_is_no_json() -> None:
    Path("rows.jsonl").write_text('{"prompt": "1+1=", "answer": "2"}\nnothing\n')
    assert refused().startswith("line 2 of ")


def test_a_column_that_the_reward_needs_and_no_row_has() -> None:
    rows([{"prompt": "1+1=", "gold": "2"}])
    message = refused()
    assert message.startswith("reward 'exact' needs the column 'answer'; the row lacks it; map it from one of ")
    assert "gold" in message


def test_a_column_that_the_run_file_names_and_no_row_has() -> None:
    edit('path = "rows.jsonl"', 'path = "rows.jsonl", columns = { prompt = "question" }')
    assert "has no column 'question', which `columns` names for 'prompt'; it has answer, prompt" in refused()


def test_R011_golds_that_the_verifier_cannot_read() -> None:
    edit('name = "exact"', 'name = "number"')
    rows([*ROWS, {"id": "odd", "prompt": "what?", "answer": "see figure"}])
    message = refused()
    assert message.startswith("reward 'number': 1 of 5 golds in column 'answer' are not a number: 'see figure' (odd); ")


def test_a_prompt_over_the_limit() -> None:
    edit("per_step = 2", "per_step = 2, max_tokens = 8")
    rows([*ROWS, {"id": "long", "prompt": "1+1+1+1+1=", "answer": "5"}])
    message = refused()
    assert "1 of 5 prompts of " in message and "are longer than 8 tokens: 'long' (10); " in message
    assert 'over_limit = "drop"' in message


def test_a_prompt_over_the_limit_can_be_dropped_and_is_counted() -> None:
    edit("per_step = 2", 'per_step = 2, max_tokens = 8, over_limit = "drop"')
    rows([*ROWS, {"id": "long", "prompt": "1+1+1+1+1=", "answer": "5"}])
    result = CliRunner().invoke(app, ["train", "mine.toml", "--out", "out"], env={"COLUMNS": "300"})
    assert str(result.exception) == "the model was loaded"
    assert "are longer than 8 tokens: 'long' (10); dropped" in " ".join(result.output.split())
    rows([{"prompt": "1+1+1+1+1=", "answer": "5"}])
    assert "so all would be dropped" in refused()


def test_a_model_folder_that_is_not_there() -> None:
    Path("models/tiny").mkdir(parents=True)
    edit("builtin:tiny-char", "models/tinny")
    assert refused() == "model folder models/tinny doesn't exist; did you mean models/tiny?"


def test_a_model_folder_without_tokenizer() -> None:
    shutil.copytree(builtin_folder("tiny-char"), "model")
    for file in Path("model").glob("tokenizer*"):
        file.unlink()
    edit("builtin:tiny-char", "model")
    message = refused()
    assert "tokenizer" in message and "model" in message


def test_a_builtin_model_that_is_not_known() -> None:
    edit("builtin:tiny-char", "builtin:tiny-chr")
    assert refused().startswith("no built-in model is called builtin:tiny-chr; did you mean builtin:tiny-char?")


def test_R104_message_prompts_without_a_chat_template() -> None:
    rows([{"messages": [{"role": "user", "content": "1+1="}], "answer": "2"}])
    message = refused()
    assert message.startswith(
        "the rows are chats and the tokenizer has no chat template; give a Jinja file as `template`"
    )


def test_an_out_folder_that_cannot_be_written() -> None:
    Path("file").touch()
    message = refused("train", "mine.toml", "--out", "file/out")
    assert message.startswith("can't write to file/out: ") and message.endswith("; give another --out")
    message = refused("train", "mine.toml", "--out", "file")
    assert message.startswith("can't write to file: ")


def test_an_out_folder_that_holds_a_run() -> None:
    Path("out").mkdir()
    Path("out/run.toml").touch()
    assert refused() == "out already holds a run; resume it with --resume out, or give another --out"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rate", "--set 'learning_rate' is not key.path=value; write for instance"),
        ("optimizer.learning_rate.x=1", "--set 'optimizer.learning_rate.x=1': learning_rate is a value, not a table;"),
        ("stages.0.steps=1", "--set 'stages.0.steps=1': this run has no list of stages; set steps itself"),
        ("optimizer.learnin_rate=1", "mine.toml: optimizer.learnin_rate is not a setting; did you mean learning_rate?"),
    ],
)
def test_overrides_that_lead_nowhere(override: str, message: str) -> None:
    assert message in refused("train", "mine.toml", "--set", override, "--out", "out")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stages = 3", "stages = 3 won't do; "),
        ("stages = [3]", "stages.0 = 3 won't do; "),
        ("sampling = 3", "sampling = 3 won't do; "),
        ("rewards = 3", "rewards = 3 won't do; "),
        ("rewards = [3]", "rewards.0 = 3 won't do; "),
        ('rewards = { name = "exact" }', "rewards = {'name': 'exact'} won't do; "),
        ("prompts = 3", "prompts = 3 won't do; "),
        ("prompts = { chat = 3 }", "prompts.chat = 3 won't do; "),
        ("task = 3", "task = 3 won't do; "),
        ("model = 3", "model = 3 won't do; "),
    ],
)
def test_a_word_where_a_table_belongs(line: str, message: str) -> None:
    key = line.partition(" ")[0]
    kept = [text for text in RUN.splitlines() if not text.startswith(f"{key} =")]
    Path("mine.toml").write_text("\n".join([line, *kept]))
    place = "mine.toml" if key == "stages" else "mine.toml:1"
    assert refused().startswith(f"{place}: {message}")


def test_a_stage_that_is_not_there() -> None:
    message = refused("train", "sums_from_scratch", "--set", "stages.7.steps=1", "--out", "out")
    assert message == "--set 'stages.7.steps=1': stages.7 doesn't exist; use 0 to 1"


def test_resuming_what_is_no_run() -> None:
    Path("empty").mkdir()
    assert refused("train", "--resume", "empty").startswith("empty holds no run (no run.toml); give the folder")


def test_exporting_what_is_no_run() -> None:
    Path("empty").mkdir()
    assert refused("export", "empty", "model").startswith("empty holds no run (no run.toml)")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def other(record): return 1.0\n", "reward"),
        ("def reward(record): return 1.0\nraise RuntimeError('broken')\n", "broken"),
        ("def reward(record) return 1.0\n", "SyntaxError"),
        (None, "there is no file"),
    ],
    ids=["no such function", "raises on import", "no Python", "no file"],
)
def test_a_reward_that_cannot_be_had(body: str | None, message: str) -> None:
    edit('{ name = "exact" }', '{ name = "function", file = "reward.py", workers = 1 }')
    if body is not None:
        Path("reward.py").write_text(body)
    assert message in refused()


def test_sample_refuses_the_same() -> None:
    edit("learning_rate", "learnin_rate")
    assert "did you mean learning_rate?" in refused("sample", "mine.toml")
    edit("per_step = 2", "per_step = 2, max_tokens = 2")
    assert "are longer than 2 tokens" in refused("sample", "mine.toml")
