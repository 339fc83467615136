"""A user's function as a reward: from a file, a module, or passed from Python."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from groupwise.errors import DataError, RewardError
from groupwise.rewards import REWARDS, AnyReward, Exact, Function, build_reward
from groupwise.rewards.contract import group_reward
from groupwise.rewards.in_process import InProcess
from groupwise.rewards.pooled import PooledReward
from groupwise.rewards.workers.target import Target, target_of

COLUMNS = """
    def reward(record):
        return record.columns["key"] == record.columns["meta"]["key"]

    reward.columns = ["key", "meta"]
"""


def test_a_file_is_relative_to_the_run_file(record, reward_file):
    path = reward_file("def shorter(record): return len(record.text) < 3")
    reward = build_reward([Function(file=path.name, function="shorter")], base=path.parent)
    try:
        reward.check([{}])
        scores = reward.score([record("ab"), record("abc")])
        assert [score.correct for score in scores] == [True, False]
        assert [score.parts for score in scores] == [{"shorter": 1.0}, {"shorter": 0.0}]
    finally:
        reward.close()


def test_a_target_is_imported_by_name(record, reward_file, monkeypatch):
    path = reward_file("def verify(record): return 0.5", "importable_rewards.py")
    monkeypatch.syspath_prepend(str(path.parent))
    reward = Function(target="importable_rewards:verify").build(Path())
    try:
        assert reward.name == "verify"
        assert [score.value for score in reward.score([record("")])] == [0.5]
    finally:
        reward.close()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"file": "a.py", "target": "a:b"},
        {"file": "a.txt"},
        {"target": "a.b"},
        {"target": ":b"},
        {"file": "a.py", "cpu_seconds": 0},
        {"file": "a.py", "workers": 0},
        {"file": "a.py", "colour": "red"},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        Function(**settings)


def test_a_missing_file_is_an_error_at_once(tmp_path):
    with pytest.raises(RewardError, match="there is no file .*nowhere.py"):
        build_reward([Function(file="nowhere.py")], base=tmp_path)


def test_an_import_error_is_reported_before_a_model_loads(reward_file):
    path = reward_file("import math\n\nfrom math import no_such_name\n\ndef reward(record): return 1\n")
    reward = Function(file=str(path)).build(Path())
    with pytest.raises(RewardError, match=r"ImportError: cannot import name 'no_such_name'.*rewards\.py, line 3"):
        reward.check([])
    reward.close()


def test_R078_all_columns_reach_the_function_and_declared_ones_are_required(record, reward_file):
    reward = Function(file=str(reward_file(COLUMNS))).build(Path())
    try:
        row = {"key": 3, "meta": {"key": 3, "list": [1, {"a": None}]}}
        reward.check([row])
        with pytest.raises(DataError, match="reward 'reward' needs the column 'meta'; 1 of 2 rows lack it"):
            reward.check([row, {"key": 3}])
        records = [record("", prompt_id, **row) for prompt_id in "aaabbb"]
        assert [score.correct for score in reward.score(records)] == [True] * 6
    finally:
        reward.close()


def test_a_closure_runs_in_this_process_and_says_so(record):
    gold = "blue"

    def is_gold(one):
        assert "added" not in one.columns
        one.columns["added"] = True  # its own copy
        return one.text == gold

    with pytest.warns(UserWarning, match="'is_gold'.*WITHOUT a time limit"):
        reward = build_reward([], functions=[is_gold])
    shared = record("blue", gold=1)
    scores = reward.score([shared, shared, record("red")])
    assert [score.correct for score in scores] == [True, True, False]
    assert len(reward.notes) == 1 and "added" not in shared.columns
    reward.check([{}])
    reward.close()


def test_in_process_faults_stay_with_their_sample(record):
    with pytest.warns(UserWarning):
        reward = build_reward([], functions=[lambda one: 1 / len(one.text)])
    scores = reward.score([record("ab"), record(""), record("a")])
    assert [score.value for score in scores] == [0.5, None, 1.0]
    assert "ZeroDivisionError" in scores[1].reason and reward.counters["<lambda>"].errors == 1


def test_in_process_group_rewards_and_declared_columns(record):
    @group_reward
    def longest(records):
        return [len(one.text) == max(len(other.text) for other in records) for one in records]

    longest.columns = "gold"  # type: ignore[attr-defined]
    with pytest.warns(UserWarning):
        reward = build_reward([], functions=[longest])
    texts = [("a", "x"), ("a", "xx"), ("b", "x")]
    scores = reward.score([record(text, prompt_id) for prompt_id, text in texts])
    assert [score.correct for score in scores] == [False, True, True]
    with pytest.raises(DataError, match="needs the column 'gold'"):
        reward.check([{"prompt": ""}])


def test_a_function_that_a_worker_can_load_goes_there(record, reward_file, monkeypatch):
    path = reward_file("import os\ndef elsewhere(record): return float(os.getpid())", "importable_elsewhere.py")
    monkeypatch.syspath_prepend(str(path.parent))
    module = importlib.import_module("importable_elsewhere")
    reward = build_reward([], functions=[module.elsewhere])
    try:
        assert isinstance(reward.parts[0].reward, PooledReward) and reward.notes == ()
        import os

        assert reward.score([record("")])[0].value not in (None, float(os.getpid()))
    finally:
        reward.close()
        del sys.modules["importable_elsewhere"]


def test_what_has_an_address_and_what_has_not(reward_file, monkeypatch):
    import json

    assert target_of(json.dumps) == Target("json", "dumps")
    assert target_of(lambda record: 1) is None
    assert target_of(Path("a").joinpath) is None
    assert target_of(Fixed()) is None
    path = reward_file("def f(record): return 1", "odd.py")
    spec = importlib.util.spec_from_file_location("name_that_leads_nowhere", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert target_of(module.f) == Target(str(path), "f")
    monkeypatch.setattr(module.f, "__module__", "__main__")
    assert target_of(module.f) is None


class Fixed:
    def __call__(self, record):
        return 1.0


def test_a_callable_object_is_called_here(record):
    with pytest.warns(UserWarning, match="'Fixed'"):
        reward = build_reward([], functions=[Fixed()])
    assert isinstance(reward.parts[0].reward, InProcess)
    assert reward.score([record("")])[0].parts == {"Fixed": 1.0}


def test_a_run_without_reward_is_an_error():
    with pytest.raises(RewardError, match="no reward"):
        build_reward([])


def test_a_run_file_names_a_reward_by_its_tag():
    adapter: TypeAdapter[object] = TypeAdapter(AnyReward)
    assert adapter.validate_python({"name": "exact", "column": "gold"}) == Exact(column="gold")
    with pytest.raises(ValidationError):
        adapter.validate_python({"name": "exakt"})
    assert {cls.model_fields["name"].default: cls for cls in REWARDS.values()} == REWARDS
    for name in ("exact", "math", "format"):
        assert type(adapter.validate_python({"name": name})) is REWARDS[name]
