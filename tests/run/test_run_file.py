"""Run files: strict, printable, and every setting is somebody's."""

from __future__ import annotations

import ast
import copy
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
from groupwise.algorithms import ALGORITHMS
from groupwise.algorithms.presets import PRESETS
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
    text += '[[rewards]]\nname = "function"\nfile = "mine.py"\n[critic]\nstart = "judge"\n'
    (folder / "judge").mkdir()
    monkeypatch.chdir(tmp_path)
    stage = load_run(written(folder, text)).run.stages[0]
    assert stage.task.path == str(folder / "rows.jsonl")
    assert stage.rewards[0].file == str(folder / "mine.py")
    assert stage.critic.start == str(folder / "judge")


# Every setting is printed, compared, documented and read.


def leaves(
    model: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel], str]]:
    """(path, class, field) of every setting below a settings class, unions of tables included."""
    for name, field in model.model_fields.items():
        inner = list(tables(field.annotation))
        first = ("0",) if typing.get_origin(field.annotation) is tuple else ()
        for table in inner:
            yield from leaves(table, (*path, name, *first))
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


def declarer(owner: type[BaseModel], name: str) -> type[BaseModel]:
    """The class whose body declares a field: what algorithms share is declared, and tried, once."""
    return next(base for base in owner.__mro__ if name in base.__dict__.get("__annotations__", {}))


def settings() -> list[Any]:
    found = {
        f"{declarer(owner, name).__name__}.{name}": (owner, name)
        for owner in classes()
        for name in owner.model_fields
        if name != "name" and not list(tables(owner.model_fields[name].annotation))
    }
    return [pytest.param(owner, name, id=key) for key, (owner, name) in found.items()]


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
    if name in READ_FROM_THE_RAW_TABLE:
        assert f'.get("{name}")' in (SOURCE / READ_FROM_THE_RAW_TABLE[name]).read_text()
    else:
        assert name in attributes_read


READ_FROM_THE_RAW_TABLE = {"preset": "algorithms/presets.py"}
"""Settings that work before the table is validated, and where."""


ANOTHER: dict[str, Any] = {
    "AlgorithmSettings.preset": "trl-1.16",  # one that says something of GRPO
    "PolicyGradient.kl_estimator": "k2",  # k1 in the loss is refused
    "ReinforcePPBaseline.kl_estimator": "k3",  # the same
    "ModelSettings.device": "cpu",
    "ModelSettings.gradient_checkpointing": True,
    "LoraSettings.target_modules": ["q_proj"],
    "Instructions.families": ["no_commas"],
    "Data.columns": {"prompt": "question"},
    "Data.test_rows": 3,
    "ReasoningGym.dataset": "basic_arithmetic",
    "ReasoningGym.parameters": {"min_animals": 2},
    "Function.file": "mine.py",
    "Function.target": "package.module:other",
    "Function.env": ["HOME"],
    "RewardSettings.normalise": "group",
    "FrozenSettings.device": "cpu",
    "Process.good_token": "+",
    "Process.bad_token": "-",
    "Judge.url": "http://localhost:2/v1",
    "Judge.template": "{prompt} {completion} Score?",
    "Code.libraries": ["scipy"],
    "Constraint.kind": "exclude",
    "Constraint.texts": ["b"],
    "Format.template": "<answer>{}</answer>",
    "Format.example": "<think>so</think><answer>4</answer>",
    "Language.language": "de",
    "Length.shape": "cosine",
    "PooledSettings.memory_mb": 512,
    "ChatSettings.template_arguments": {"a": True},
    "OptimizerSettings.betas": [0.5, 0.6],
    "AlarmSettings.stop": ["truncation"],
}
"""Values other than the default, for settings that don't take just any."""

MARKED = {"rewards.0.mark": "\n", "rewards.0.good_token": "a", "rewards.0.bad_token": "b"}

BESIDE: dict[str, dict[str, Any]] = {
    # What a table can't do without.
    "ReplayEngineSettings": {"engine.path": "samples"},
    "Data": {"task.path": "rows.jsonl"},
    "ReasoningGym": {"task.dataset": "leg_counting"},
    "Function": {"rewards.0.target": "package.module:reward"},
    "Function.file": {"rewards.0.file": "before.py"},
    "Function.function": {"rewards.0.file": "mine.py"},
    "Constraint": {"rewards.0.name": "constraints", "rewards.0.every": [{"kind": "include", "texts": ["a"]}]},
    "Length": {"rewards.0.shape": "linear", "rewards.0.start": 9, "rewards.0.end": 99},
    "Length.target": {"rewards.0.shape": "target", "rewards.0.target": 9, "rewards.0.width": 2},
    "Length.width": {"rewards.0.shape": "target", "rewards.0.target": 9, "rewards.0.width": 2},
    "Length.target_column": {"rewards.0.shape": "target", "rewards.0.target_column": "n", "rewards.0.width": 2},
    "Language.column": {"rewards.0.column": "tongue"},
    "Process.good_token": {"rewards.0.model": "a/judge", **MARKED},
    "Process.bad_token": {"rewards.0.model": "a/judge", **MARKED},
    "ProcessRule": {"rewards.0.target": "package.module:rule"},
    "Overlong": {"rewards.0.max_length": 9, "rewards.0.cache": 2},
    "Language": {"rewards.0.language": "en"},
    "RewardModel": {"rewards.0.model": "a/judge"},
    "Process": {"rewards.0.model": "a/judge"},
    "Judge": {"rewards.0.url": "http://localhost:1/v1", "rewards.0.model": "m", "rewards.0.template": "{completion}"},
    "ReferenceRefresh": {"algorithm.reference_refresh.every": 2},
    "Correction": {"algorithm.correction.kind": "mis-token"},  # a kind that has a floor
    "SoftOverlong": {"algorithm.soft_overlong.max_length": 9, "algorithm.soft_overlong.cache": 2},
    # What a value goes with.
    "Stage.samples": {"algorithm.name": "rft"},
    "AdaptiveKL": {"algorithm.kl_placement": "reward", "algorithm.kl_estimator": "k1", "algorithm.beta": 0.1},
    "PolicyGradient.length_constant": {"algorithm.aggregation": "seq-mean-token-sum-norm"},
    "ActorCritic.kl_placement": {"algorithm.kl_estimator": "k3"},  # k1 in the loss is refused
    "RLOO.kl_placement": {"algorithm.kl_estimator": "k3"},
    "ReinforcePP.kl_placement": {"algorithm.kl_estimator": "k3"},
}
"""Settings that stand beside the one that is changed, before and after, by its class or its own name."""


def another(owner: type[BaseModel], name: str, now: Any) -> Any:
    """A valid value that is not `now`."""
    field = owner.model_fields[name]
    if (key := f"{declarer(owner, name).__name__}.{name}") in ANOTHER:
        return ANOTHER[key]
    if options := _options(field.annotation):
        return next(option for option in options if option != now)
    above = [m.le for m in field.metadata if isinstance(m, annotated_types.Le)]
    above += [m.lt for m in field.metadata if isinstance(m, annotated_types.Lt)]
    kinds = _kinds(field.annotation)
    if bool in kinds:
        return not now
    if int in kinds:
        raised = (now or 0) + 1
        return now - 1 if above and raised > above[0] else raised
    if float in kinds:
        return (now + above[0]) / 2 if above and now == 0 else now / 2 if now else 0.625
    return "other"


def _options(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [option for inner in typing.get_args(annotation) for option in _options(inner)]


def _kinds(annotation: Any) -> set[Any]:
    return {annotation}.union(*(_kinds(inner) for inner in typing.get_args(annotation)))


def changes() -> list[Any]:
    """(names of the tables chosen, path, class, field) of every setting that a run file can hold and that has more than
    one value. A setting that several algorithms inherit, or a table that several hold, is tried on GRPO, else on the
    first that has it."""
    found: dict[str, Any] = {}

    def add(chosen: str | None, below: Iterator[tuple[tuple[str, ...], type[BaseModel], str]]) -> None:
        for path, owner, name in below:
            annotation = owner.model_fields[name].annotation
            if typing.get_origin(annotation) is typing.Literal and len(typing.get_args(annotation)) == 1:
                continue
            found.setdefault(f"{declarer(owner, name).__name__}.{name}", (chosen, ".".join(path), owner, name))

    for algorithm in (ALGORITHMS["grpo"], *ALGORITHMS.values()):
        add(algorithm.model_fields["name"].default, leaves(algorithm, ("algorithm",)))
    for reward in REWARDS.values():
        add(None, leaves(reward, ("rewards", "0")))
    add(None, (leaf for leaf in leaves(Run) if leaf[0][0] != "stages"))
    add(None, (leaf for leaf in leaves(Stage) if leaf[0][0] not in ("algorithm", "rewards")))
    return [pytest.param(*case, id=key) for key, case in found.items()]


def put(tree: Any, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for key in above:
        tree = tree[int(key)] if isinstance(tree, list) else tree.setdefault(key, {})
    tree[last] = value


def at(tree: Any, path: str) -> Any:
    """The value at a path, None where there is none: a setting that isn't set is left out of a run file."""
    for key in path.split("."):
        tree = tree[int(key)] if isinstance(tree, list) else (tree or {}).get(key)
    return tree


@pytest.mark.filterwarnings("ignore:k. in the reward has a wrong gradient")
@pytest.mark.parametrize(("algorithm", "path", "owner", "name"), changes())
def test_R047_changing_any_setting_changes_what_is_printed(
    algorithm: str | None, path: str, owner: type[BaseModel], name: str
) -> None:
    tree = tomllib.loads(RUN)
    tree |= {"algorithm": {"name": algorithm or "grpo"}, "model": {"name": tree["model"]}, "task": {"name": "sums"}}
    of_list = next((word for word in ("rewards", "trackers") if path.startswith(word)), None)
    tree |= {of_list: [{}]} if of_list else {}
    table, _, _ = path.rpartition(".")
    if _options(getattr(owner.model_fields.get("name"), "annotation", None)):  # a table that is chosen by its name
        put(tree, f"{table}.name", owner.model_fields["name"].default)
    key = f"{declarer(owner, name).__name__}.{name}"
    beside = BESIDE.get(key) or BESIDE.get(owner.__name__, {})
    for other, value in beside.items():
        put(tree, other, copy.deepcopy(value))
    if table and not of_list:
        put(tree, table, at(tree, table) or {})

    plain = load_run(tree).run
    before = at(tomllib.loads(to_toml(plain)), path)
    put(tree, path, another(owner, name, before))
    changed = load_run(tree).run
    assert at(tomllib.loads(to_toml(changed)), path) != before
    assert any(path in difference.partition(":")[0] for difference in differences(plain, changed))
    assert load_run(tomllib.loads(to_toml(changed))).run == changed


@pytest.mark.parametrize("name", ALGORITHMS)
def test_R047_every_setting_of_an_algorithm_is_printed(name: str) -> None:
    """Those it inherits too, which the test above tries on one algorithm only."""
    run = load_run(tomllib.loads(RUN) | {"algorithm": name}).run
    settings = run.stages[0].algorithm
    unset = {key for key in type(settings).model_fields if getattr(settings, key) is None}
    assert set(tomllib.loads(to_toml(run))["algorithm"]) == set(type(settings).model_fields) - unset
    assert all(type(settings).model_fields[key].default is None for key in unset)
    assert load_run(tomllib.loads(to_toml(run))).run == run


@pytest.mark.parametrize(
    ("algorithm", "preset"), [(algorithm, preset) for preset, table in PRESETS.items() for algorithm in table]
)
def test_a_preset_is_read_back_and_a_none_that_cannot_be_written_beside_it_is_refused(
    algorithm: str, preset: str
) -> None:
    given: dict[str, Any] = {"name": algorithm, "preset": preset}
    run = load_run(tomllib.loads(RUN) | {"algorithm": given}).run
    assert load_run(tomllib.loads(to_toml(run))).run == run
    for key in (key for key in PRESETS[preset][algorithm] if ALGORITHMS[algorithm].model_fields[key].default is None):
        with pytest.raises(RunFileError, match=f"{key} = None beside preset '{preset}', which sets it, can't be"):
            load_run(tomllib.loads(RUN) | {"algorithm": given | {key: None}})


def test_R047_an_override_that_no_stage_takes_is_refused() -> None:
    written = tomllib.loads(to_toml(load_run("sums_from_scratch").run))
    with pytest.raises(RunFileError, match="reaches no stage: each sets that itself; set stages.N.evaluation.prompts"):
        load_run(written, ["evaluation.prompts=5"])
    changed = load_run(written, ["stages.1.evaluation.prompts=5"]).run
    assert changed.stages[1].evaluation.prompts == 5
    assert load_run("sums_from_scratch", ["evaluation.prompts=5"]).run.stages[0].evaluation.prompts == 5
