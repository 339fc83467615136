"""The list of tasks, and how a run file names one."""

import importlib

import pytest
from pydantic import TypeAdapter, ValidationError

from groupwise.tasks import TASKS, AnyTask, Data, Instructions, ReasoningGym

ANY = TypeAdapter(AnyTask)


def test_a_run_file_names_a_task_by_its_name():
    assert ANY.validate_python({"name": "instructions", "train_rows": 6}) == Instructions(train_rows=6)
    assert ANY.validate_python({"name": "data", "path": "x.jsonl"}) == Data(path="x.jsonl")
    with pytest.raises(ValidationError, match="sums"):
        ANY.validate_python({"name": "sum"})
    with pytest.raises(ValidationError, match="train_row"):
        ANY.validate_python({"name": "instructions", "train_row": 6})


@pytest.mark.parametrize("name", TASKS)
def test_the_list_has_every_task_under_its_own_name(name):
    required = {"data": {"path": "x"}, "reasoning_gym": {"dataset": "x"}}.get(name, {})
    task = ANY.validate_python({"name": name, **required})
    assert type(task) is TASKS[name] and task.name == name


@pytest.mark.parametrize("name", ["instructions", "sums"])
def test_built_in_tasks_give_rows_with_an_id_and_a_completion(name):
    for row in TASKS[name]().rows("test", 0):
        assert row["id"] and isinstance(row["completion"], str)
        assert ("prompt" in row) != ("messages" in row)


@pytest.mark.parametrize("name", ["instructions", "reasoning_gym"])
def test_a_task_s_reward_function_names_columns_that_its_rows_have(name):
    module, _, function = TASKS[name].model_construct(dataset="x").reward()["target"].partition(":")
    columns = getattr(importlib.import_module(module), function).columns
    if name == "instructions":
        row = TASKS[name]().rows("test", 0)[0]
    else:
        row = ReasoningGym(dataset="x")._row({"question": "q", "answer": "a", "metadata": {}})
    assert set(columns) <= set(row)
