"""The task `data`: files and data sets, column names, held-out rows, and what is said about bad input."""

import json

import datasets
import pytest
from pydantic import ValidationError

from groupwise.errors import DataError
from groupwise.tasks import InMemory
from groupwise.tasks.data import Data

ROWS = [{"question": f"{n}+1=", "gold": str(n + 1), "meta": {"level": n}} for n in range(10)]
COLUMNS = {"prompt": "question", "answer": "gold"}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def jsonl(tmp_path):
    return write(tmp_path / "train.jsonl", ROWS)


def one_line(error):
    message = str(error.value)
    assert "\n" not in message and ";" in message
    return message


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "folder", "folder with splits", "parquet folder"])
def test_every_kind_of_source_gives_the_same_rows(tmp_path, kind):
    split = "train"
    if kind == "jsonl":
        path = write(tmp_path / "rows.jsonl", ROWS)
    elif kind == "json":
        path = str(tmp_path / "rows.json")
        (tmp_path / "rows.json").write_text(json.dumps(ROWS), encoding="utf-8")
    else:
        data_set = datasets.Dataset.from_list(ROWS)
        path = str(tmp_path / ("rows.parquet" if kind == "parquet" else "rows"))
        if kind == "parquet":
            data_set.to_parquet(path)
        elif kind == "folder":
            data_set.save_to_disk(path)
        elif kind == "parquet folder":
            (tmp_path / "rows").mkdir()
            data_set.to_parquet(f"{path}/train-00000.parquet")
        else:
            split = "extra"
            datasets.DatasetDict({"train": data_set.select([0]), "extra": data_set}).save_to_disk(path)
    rows = Data(path=path, split=split, columns=COLUMNS).rows("train", 0)
    expected = [{"meta": row["meta"], "prompt": row["question"], "answer": row["gold"]} for row in ROWS]
    assert [{key: value for key, value in row.items() if key != "id"} for row in rows] == expected
    assert len({row["id"] for row in rows}) == 10


def test_ids_come_from_the_content_and_not_from_the_place(tmp_path, jsonl):
    ids = {row["prompt"]: row["id"] for row in Data(path=jsonl, columns=COLUMNS).rows("train", 0)}
    moved = write(tmp_path / "moved.jsonl", [{"question": "new", "gold": "1"}, *reversed(ROWS)])
    for row in Data(path=moved, columns=COLUMNS).rows("train", 5)[1:]:
        assert row["id"] == ids[row["prompt"]]


def test_rows_that_ask_the_same_get_ids_of_their_own(tmp_path):
    path = write(tmp_path / "same.jsonl", [{"prompt": "a"}, {"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}])
    ids = [row["id"] for row in Data(path=path).rows("train", 0)]
    assert ids[1] == f"{ids[0]}-2" and ids[3] == f"{ids[0]}-3" and len(set(ids)) == 4


def test_naming_messages_leaves_the_other_column_out(tmp_path):
    row = {"prompt": "hi", "messages": [{"role": "user", "content": "hi"}], "x": 1}
    path = write(tmp_path / "both.jsonl", [row])
    (kept,) = Data(path=path, columns={"messages": "messages"}).rows("train", 0)
    assert set(kept) == {"id", "messages", "x"}
    with pytest.raises(DataError, match="both `prompt` and `messages`"):
        Data(path=path).rows("train", 0)


def test_limit_reads_only_the_first_rows(jsonl):
    rows = Data(path=jsonl, columns=COLUMNS, limit=3).rows("train", 0)
    assert [row["prompt"] for row in rows] == ["0+1=", "1+1=", "2+1="]


def test_test_rows_come_from_the_place_that_is_named(tmp_path, jsonl):
    other = write(tmp_path / "test.jsonl", ROWS[:2])
    assert Data(path=jsonl, columns=COLUMNS).rows("test", 0) == []
    assert len(Data(path=jsonl, columns=COLUMNS, test_path=other).rows("test", 0)) == 2
    saved = datasets.DatasetDict(
        {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:4])}
    )
    saved.save_to_disk(str(tmp_path / "saved"))
    assert len(Data(path=str(tmp_path / "saved"), columns=COLUMNS, test_split="test").rows("test", 0)) == 4


@pytest.mark.parametrize("amount, held", [(3, 3), (0.2, 2), (0.01, 1)])
def test_held_out_rows_are_the_same_for_every_seed_and_order(tmp_path, jsonl, amount, held):
    task = Data(path=jsonl, columns=COLUMNS, test_rows=amount)
    train, test = task.rows("train", 0), task.rows("test", 1)
    assert len(test) == held and len(train) == 10 - held
    assert not {row["id"] for row in train} & {row["id"] for row in test}
    turned = Data(path=write(tmp_path / "turned.jsonl", ROWS[::-1]), columns=COLUMNS, test_rows=amount)
    assert {row["id"] for row in turned.rows("test", 7)} == {row["id"] for row in test}


def test_rows_that_ask_the_same_are_held_out_together():
    rows = [{"prompt": str(n % 4), "answer": n} for n in range(20)]
    task = InMemory(rows, test_rows=2)
    asked = {split: {row["prompt"] for row in task.rows(split, 0)} for split in ("train", "test")}
    assert len(task.rows("test", 0)) == 5 and not asked["train"] & asked["test"]


def test_a_missing_file_is_named_with_a_near_one(tmp_path, jsonl):
    with pytest.raises(DataError) as error:
        Data(path=str(tmp_path / "trian.jsonl")).rows("train", 0)
    assert "trian.jsonl" in one_line(error) and "did you mean 'train.jsonl'" in one_line(error)


def test_a_name_that_is_nowhere_is_an_error(monkeypatch):
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *args, **kwargs: (_ for _ in ()).throw(ConnectionError("no\nnet"))
    )
    with pytest.raises(DataError) as error:
        Data(path="someone/nothing").rows("train", 0)
    assert "'someone/nothing' is no file or folder here" in one_line(error) and "ConnectionError: no" in one_line(error)


def test_a_hub_name_is_loaded_with_its_subset_and_split(monkeypatch):
    asked = []

    def load(name, subset, split):
        asked.append((name, subset, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    task = Data(path="someone/sums", subset="main", columns=COLUMNS, test_split="validation", limit=2)
    assert len(task.rows("train", 0)) == len(task.rows("test", 0)) == 2
    assert asked == [("someone/sums", "main", "train"), ("someone/sums", "main", "validation")]


@pytest.mark.parametrize(
    "text, told",
    [
        ('{"prompt": "a"}\n\n{"prompt": \n', "line 3 of"),
        ('{"prompt": "a"}\n[1]\n', "line 2 of"),
        ("", "holds no rows"),
        ("\n \n", "holds no rows"),
        ('{"answer": "a"}\n', "neither `prompt` nor `messages`, only answer"),
        ('{"prompt": "a", "messages": [{"role": "user", "content": "a"}]}\n', "both `prompt` and `messages`"),
        ('{"prompt": 3}\n', "a `prompt` that is a int"),
        ('{"prompt": [{"role": "user", "content": "a"}]}\n', 'messages = "prompt"'),
        ('{"messages": []}\n', "not a list with at least one message"),
        ('{"messages": [{"content": "a"}]}\n', "without `role` or `content`"),
        ('{"id": 1, "prompt": "a"}\n{"id": "1", "prompt": "b"}\n', "'1' for one"),
    ],
)
def test_bad_rows_are_named_in_one_line(tmp_path, text, told):
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        Data(path=str(path)).rows("train", 0)
    assert told in one_line(error) and "bad.jsonl" in one_line(error)


@pytest.mark.parametrize(
    "name, content, told",
    [
        ("rows.json", b'{"prompt": "a"}', "not a list of objects"),
        ("rows.json", b'{"prompt": "a"}\n{"prompt": "b"}', "name it .jsonl"),
        ("rows.jsonl", b'{"prompt": "a"}\n{"prompt": "\xff"}', "line 2"),
        ("rows.parquet", b"not parquet", "can't be read as Parquet"),
        ("rows.csv", b"prompt\na\n", "ends in none of"),
    ],
)
def test_files_that_cannot_be_read_are_named_in_one_line(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        Data(path=str(tmp_path / name)).rows("train", 0)
    assert told in one_line(error)


def test_a_missing_column_is_named_with_those_that_are_there(jsonl):
    with pytest.raises(DataError) as error:
        Data(path=jsonl, columns={"prompt": "qestion"}).rows("train", 0)
    message = one_line(error)
    assert "'qestion' (did you mean 'question'?)" in message and "gold, meta, question" in message


def test_an_unknown_split_of_a_saved_data_set_is_named(tmp_path):
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(str(tmp_path / "saved"))
    with pytest.raises(DataError, match="no split 'trian' .did you mean 'train'"):
        Data(path=str(tmp_path / "saved"), split="trian").rows("train", 0)


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"test_rows": 0}, "test_rows is 0"),
        ({"test_rows": 1.5}, "test_rows is 1.5"),
        ({"test_rows": 2, "test_split": "test"}, "test_split and test_rows both say"),
        ({"limit": 0}, "limit"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, told):
    with pytest.raises(ValidationError, match=told):
        Data(path="x.jsonl", **settings)


def test_holding_everything_out_is_refused(jsonl):
    with pytest.raises(DataError, match="leaves none to train on"):
        Data(path=jsonl, columns=COLUMNS, test_rows=10).rows("train", 0)


def test_R093_a_generator_is_read_once_and_gives_its_rows_again_and_again():
    task = InMemory({"prompt": f"{n}=", "answer": n} for n in range(5))
    assert [row["answer"] for row in task.rows("train", 0)] == list(range(5))
    assert task.rows("train", 1) == task.rows("train", 0) and task.rows("test", 0) == []


def test_R093_no_rows_at_all_are_an_error():
    with pytest.raises(DataError, match="there are no rows in the rows given"):
        InMemory(iter(()))
    with pytest.raises(DataError, match="row 1 of the rows given is a str"):
        InMemory(["2+2="])


def test_rows_given_from_python_may_bring_their_own_test():
    task = InMemory([{"prompt": "a"}], test=iter([{"prompt": "b"}]))
    assert [row["prompt"] for row in task.rows("test", 0)] == ["b"]
