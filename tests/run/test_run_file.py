"""Run files: strict, printable, and every setting is somebody's."""

from __future__ import annotations

import ast
import tomllib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import annotated_types
import pytest
from pydantic import BaseModel

import groupwise
from groupwise.errors import RunFileError
from groupwise.rewards.build import REWARDS
from groupwise.run import Run, Stage
from groupwise.run_file import differences, load_run, packaged_runs, to_toml

RUN = """
steps = 4
model = "builtin:tiny-char"
algorithm = "grpo"
task = "sums"

[optimizer]
learning_rate = 1e-4
"""


def written(folder: Path, text: str = RUN) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def error(folder: Path, text: str = RUN, overrides: tuple[str, ...] = ()) -> str:
    """The message of the error that this run file gives: one line, the file's folder taken out."""
    with pytest.raises(RunFileError) as caught:
        load_run(written(folder, text), overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.fix
    return str(caught.value).replace(f"{folder}/", "")


def test_a_run_file_is_read_with_every_default_filled_in(tmp_path: Path) -> None:
    loaded = load_run(written(tmp_path))
    assert loaded.name == "mine" and loaded.notes == ()
    run = loaded.run
    assert run.total_steps() == 4 and run.stage_name(0) == "0-grpo"
    assert run.model.name == "builtin:tiny-char"
    assert run.stages[0].optimizer.learning_rate == 1e-4
    assert run.stages[0].sampling.group_size == 8


@pytest.mark.parametrize("name", packaged_runs())
def test_packaged_runs_are_valid_and_printable(name: str) -> None:
    run = load_run(name).run
    assert load_run(tomllib.loads(to_toml(run))).run == run


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    text = RUN + '[[stages]]\nalgorithm = "sft"\nsteps = 2\n[[stages]]\nsampling = { temperature = 0.5 }\n'
    run = load_run(written(tmp_path, text)).run
    (tmp_path / "again.toml").write_text(to_toml(run))
    again = load_run(tmp_path / "again.toml").run
    assert again == run
    assert differences(run, again) == []


def test_stages_lie_over_the_top_level(tmp_path: Path) -> None:
    text = RUN + (
        "[sampling]\ngroup_size = 4\n"
        '[[stages]]\nalgorithm = "sft"\nsteps = 2\noptimizer = { learning_rate = 1e-3 }\n'
        "[[stages]]\nalgorithm = { beta = 0.5 }\nsampling = { max_tokens = 9 }\n"
    )
    first, second = load_run(written(tmp_path, text)).run.stages
    assert (first.algorithm.name, first.steps, first.optimizer.learning_rate) == ("sft", 2, 1e-3)
    assert (second.algorithm.name, second.steps, second.optimizer.learning_rate) == ("grpo", 4, 1e-4)
    assert second.algorithm.beta == 0.5
    assert (second.sampling.group_size, second.sampling.max_tokens) == (4, 9)


def test_overrides_are_laid_over_the_file(tmp_path: Path) -> None:
    overrides = ["optimizer.learning_rate=2e-5", "model.dtype=float32", "algorithm.beta=0.5", "steps=9"]
    run = load_run(written(tmp_path), overrides).run
    assert run.stages[0].optimizer.learning_rate == 2e-5
    assert run.model.dtype == "float32" and run.model.name == "builtin:tiny-char"
    assert run.stages[0].algorithm.beta == 0.5 and run.stages[0].steps == 9


def test_overrides_reach_stages_by_index() -> None:
    run = load_run("sums_from_scratch", ["stages.1.steps=6", "stages.0.optimizer.learning_rate=1e-2"]).run
    assert run.stages[1].steps == 6 != run.stages[0].steps
    assert run.stages[0].optimizer.learning_rate == 1e-2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps", "--set 'steps' is not key.path=value; write for instance --set optimizer.learning_rate=1e-5"),
        ("stages.2.steps=6", "--set 'stages.2.steps=6': stages.2 doesn't exist; use 0 to 1"),
        ("stages.one.steps=6", "--set 'stages.one.steps=6': stages.one doesn't exist; use 0 to 1"),
        ("seed.value=6", "--set 'seed.value=6': seed is a value, not a table; set seed itself"),
        (
            "stages.1.optimizer.learnin_rate=1",
            "stages.1.optimizer.learnin_rate is not a setting; did you mean learning_",
        ),
        ("optimiser.learning_rate=1", "optimiser is not a setting; did you mean optimizer?"),
    ],
)
def test_overrides_that_lead_nowhere_say_so(override: str, message: str) -> None:
    with pytest.raises(RunFileError) as caught:
        load_run("sums_from_scratch", [override])
    assert message in str(caught.value)


def test_R047_an_unknown_key_is_an_error_that_suggests_the_right_one(tmp_path: Path) -> None:
    text = RUN.replace("learning_rate", "learnin_rate")
    assert error(tmp_path, text) == "mine.toml:8: optimizer.learnin_rate is not a setting; did you mean learning_rate?"
    assert error(tmp_path, "stepz = 4\n" + RUN) == "mine.toml:1: stepz is not a setting; did you mean steps?"
    text = RUN.replace('"builtin:tiny-char"', '{ name = "builtin:tiny-char", lora = { zzz = 1 } }')
    assert "lora.zzz is not a setting; known here: rank, alpha, target_modules" in error(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("clip_hihg = 0.3", "mine.toml:8: algorithm.clip_hihg is not a setting; did you mean clip_high?"),
        ("beta = -1", "mine.toml:8: algorithm.beta = -1 won't do; input should be greater than or equal to 0"),
        ("aggregation = 'mean'", "mine.toml:8: algorithm.aggregation = 'mean' won't do; input should be "),
    ],
)
def test_R047_settings_of_an_algorithm_are_checked_too(tmp_path: Path, line: str, message: str) -> None:
    text = RUN.replace('algorithm = "grpo"\n', "").replace(
        "[optimizer]", f'[algorithm]\nname = "grpo"\n{line}\n[optimizer]'
    )
    assert error(tmp_path, text).startswith(message)


def test_R047_a_name_that_is_not_known_suggests_the_nearest(tmp_path: Path) -> None:
    for word, wrong, right in (("algorithm", "grop", "grpo"), ("task", "sum", "sums")):
        text = RUN.replace(f'{word} = "{right}"', f'{word} = "{wrong}"')
        assert f"{word}.name = '{wrong}' is not known; did you mean {right}?" in error(tmp_path, text)
    text = RUN.replace('"grpo"', '"zzz"')
    assert "algorithm.name = 'zzz' is not known; use one of " in error(tmp_path, text)
    assert "grpo" in error(tmp_path, text) and "sft" in error(tmp_path, text)


def test_R070_numbers_written_as_text_are_read_and_said(tmp_path: Path) -> None:
    plain = load_run(written(tmp_path, RUN.replace("1e-4", "1e-6")))
    assert plain.run.stages[0].optimizer.learning_rate == 1e-6 and plain.notes == ()
    quoted = load_run(written(tmp_path, RUN.replace("1e-4", '"1e-6"')))
    assert quoted.run == plain.run
    (note,) = quoted.notes
    assert note.endswith("optimizer.learning_rate = '1e-6' was read as the number 1e-06")
    assert "mine.toml:8:" in note


def test_R070_true_is_no_number(tmp_path: Path) -> None:
    assert "learning_rate = true is no number; give a number" in error(tmp_path, RUN.replace("1e-4", "true"))
    assert "steps = false is no number" in error(tmp_path, RUN.replace("steps = 4", "steps = false"))


@pytest.mark.parametrize("value", ['"fast"', '""', "[]"])
def test_R070_anything_else_is_an_error_with_file_and_line(tmp_path: Path, value: str) -> None:
    message = error(tmp_path, RUN.replace("1e-4", value))
    assert message.startswith("mine.toml:8: optimizer.learning_rate = ")


def test_R070_a_key_without_value_is_an_error_with_its_line(tmp_path: Path) -> None:
    assert "mine.toml is not valid TOML" in error(tmp_path, RUN.replace("1e-4", ""))
    assert "line 8" in error(tmp_path, RUN.replace("1e-4", ""))


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1e-6"])
def test_rates_that_cannot_train_are_refused(tmp_path: Path, value: str) -> None:
    assert "mine.toml:8: optimizer.learning_rate" in error(tmp_path, RUN.replace("1e-4", value))


def test_R038_a_group_of_one_is_refused(tmp_path: Path) -> None:
    message = error(tmp_path, RUN + "[sampling]\ngroup_size = 1\n")
    assert "sampling.group_size = 1 gives grpo no group to compare within; use 2 or more" in message
    assert load_run(written(tmp_path, RUN.replace("grpo", "sft") + "[sampling]\ngroup_size = 1\n"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for key in ("steps", "model", "algorithm", "task"):
        text = "\n".join(line for line in RUN.splitlines() if not line.startswith(f"{key} ="))
        assert f"{key} is missing; set {key}" in error(tmp_path, text)


def test_no_stage_at_all_is_refused(tmp_path: Path) -> None:
    assert "stages" in error(tmp_path, RUN.replace("[optimizer]", "stages = []\n[optimizer]"))


def test_a_missing_run_file_suggests_one_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    with pytest.raises(RunFileError, match=r"no run file or packaged run 'mein.toml'; did you mean mine.toml\?"):
        load_run("mein.toml")
    with pytest.raises(RunFileError, match=r"did you mean sums_from_scratch\?"):
        load_run("sums_from_scrach")


def test_paths_are_relative_to_the_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "rows.jsonl").touch()
    (folder / "mine.py").touch()
    text = RUN.replace('task = "sums"', 'task = { name = "data", path = "rows.jsonl" }')
    text += '[[rewards]]\nname = "function"\nfile = "mine.py"\n'
    monkeypatch.chdir(tmp_path)
    stage = load_run(written(folder, text)).run.stages[0]
    assert stage.task.path == str(folder / "rows.jsonl")
    assert stage.rewards[0].file == str(folder / "mine.py")


# Every setting is printed, compared, documented and read.


def leaves(
    model: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], str]]:
    """(path, class, field) of every setting below a settings class, unions of tables included."""
    for name, field in model.model_fields.items():
        inner = list(tables(field.annotation))
        for table in inner:
            yield from leaves(table, (*path, name))
        if not inner:
            yield (*path, name), model, name


def tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from tables(inner)


def classes() -> list[type[BaseModel]]:
    found = {owner: None for _, owner, _ in leaves(Run)} | dict.fromkeys(REWARDS.values())
    return list(found)


def settings() -> list[Any]:
    return [
        pytest.param(owner, name, id=f"{owner.__name__}.{name}")
        for owner in classes()
        for name in owner.model_fields
        if name != "name" and not list(tables(owner.model_fields[name].annotation))
    ]


@pytest.mark.parametrize("owner", classes(), ids=lambda owner: owner.__name__)
def test_R047_every_setting_is_documented_where_it_is_declared(owner: type[BaseModel]) -> None:
    self_evident = {
        "name",
        "beta",
        "betas",
        "eps",
        "temperature",
        "max_grad_norm",
        "seed",
        "steps",
        "algorithm",
        "task",
    }
    for name, field in owner.model_fields.items():
        tabled = list(tables(field.annotation))
        assert field.description or name in self_evident or tabled, f"{owner.__name__}.{name}"


SOURCE = Path(groupwise.__file__).parent


@pytest.fixture(scope="module")
def attributes_read() -> set[str]:
    """Every attribute name that the source reads anywhere."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return names


@pytest.mark.parametrize(("owner", "name"), settings())
def test_R047_every_setting_is_read_somewhere(owner: type[BaseModel], name: str, attributes_read: set[str]) -> None:
    assert name in attributes_read


def another(owner: type[BaseModel], name: str) -> Any:
    """A valid value that is not the default."""
    field = owner.model_fields[name]
    default, annotation = field.default, field.annotation
    special = {
        "path": "elsewhere.jsonl", "target": "package.module:other", "device": "cpu", "template_arguments": {"a": True},
        "columns": {"prompt": "question"}, "target_modules": ["q_proj"], "betas": [0.5, 0.6], "held_out": 0.25,
        "tasks": {"basic_arithmetic": 1.0}, "digits": 2, "test_rows": 3, "env": ["HOME"], "norm_length": 9,
        "file": "mine.py", "families": ["no_commas"], "parameters": {"min_animals": 2},
    }  # fmt: skip
    if name in special:
        return special[name]
    for option in _options(annotation):
        if option != default:
            return option
    bounds = [m for m in field.metadata if isinstance(m, annotated_types.Le | annotated_types.Lt)]
    kinds = typing.get_args(annotation) or (annotation,)
    if bool in kinds:
        return not default
    if int in kinds:
        return (default if isinstance(default, int) else 2) + 1
    if float in kinds:
        return (default if isinstance(default, float) else 1.0) * 0.5 + (0.0 if bounds else 0.125)
    return "other"


def _options(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [option for inner in typing.get_args(annotation) for option in _options(inner)]


REQUIRED: dict[str, Any] = {
    "path": "rows.jsonl",
    "dataset": "leg_counting",
    "target": "package.module:reward",
}
"""Values for settings without a default, beside those of `RUN`."""


def changes() -> list[Any]:
    """(path of a table, its class, field) of every setting that a run file can hold, but names."""
    found = [(("rewards",), owner, name) for owner in REWARDS.values() for name in owner.model_fields]
    found += [
        (path[:-1], owner, name)
        for model in (Run, Stage)
        for path, owner, name in leaves(model)
        if path[0] != "rewards"
    ]
    return [
        pytest.param(path, owner, name, id=".".join((*path, owner.__name__, name)))
        for path, owner, name in found
        if name != "name" and path[:1] != ("stages",)
    ]


@pytest.mark.parametrize(("path", "owner", "name"), changes())
def test_R047_changing_any_setting_changes_what_is_printed(
    path: tuple[str, ...], owner: type[BaseModel], name: str
) -> None:
    tree: dict[str, Any] = tomllib.loads(RUN)
    node = tree
    for key in path:
        given = node.get(key, {})
        node[key] = {"name": given} if isinstance(given, str) else given
        node = node[key]
    if owner is not Run and owner is not Stage:
        default = owner.model_fields["name"].default if "name" in owner.model_fields else None
        node |= {"name": default} if isinstance(default, str) else {}
        node |= {key: REQUIRED[key] for key in REQUIRED if key in owner.model_fields and _needed(owner, key)}
    if path == ("rewards",):
        tree["rewards"] = [node]
    if name == "norm_length":
        node |= {"aggregation": "seq-mean-token-sum-norm", "norm_length": 7}
    plain = load_run(tree).run
    if name == "file":
        del node["target"]
    node[name] = another(owner, name)
    changed = load_run(tree).run
    assert to_toml(changed) != to_toml(plain)
    assert any(name in difference for difference in differences(plain, changed))
    assert load_run(tomllib.loads(to_toml(changed))).run == changed


def _needed(owner: type[BaseModel], key: str) -> bool:
    return owner.model_fields[key].is_required() or key == "target"
