"""The task `reasoning_gym`. A stand-in with the library's interface shows the rules; the library itself,
where it is installed, shows that they hold for it."""

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from groupwise.errors import DataError
from groupwise.tasks import reasoning_gym as task_module
from groupwise.tasks.reasoning_gym import ReasoningGym, extract_answer, verify


@dataclass
class Answer:
    clean_text: str
    columns: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"


class Generator:
    """Items as the library makes them: item i of seed s is item i-1 of seed s+1, and few are different."""

    def __init__(self, seed, size, modulus=997):
        assert modulus > 0, "modulus must be positive"
        self.seed, self.size, self.modulus = seed, size, modulus

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        number = (self.seed + index) % self.modulus
        return {"question": f"What is {number}?", "answer": str(number), "metadata": {"index": index}}

    def score_answer(self, answer, entry):
        if answer == entry["answer"]:
            return 1.0
        return 0.01 if int(answer) else 0.5


@pytest.fixture
def library(monkeypatch):
    stand_in = SimpleNamespace(
        factory=SimpleNamespace(DATASETS={"numbers": None, "countdown": None}),
        create_dataset=lambda name, **settings: Generator(**settings),
    )
    monkeypatch.setitem(sys.modules, "reasoning_gym", stand_in)
    task_module._scorer.cache_clear()
    yield stand_in
    task_module._scorer.cache_clear()


def test_questions_are_different_within_and_between_splits_and_seeds(library):
    task = ReasoningGym(dataset="numbers", train_rows=300, test_rows=60)
    train = [{row["question"] for row in task.rows("train", seed)} for seed in (0, 1)]
    test = [{row["question"] for row in task.rows("test", seed)} for seed in (0, 1)]
    assert [len(part) for part in train + test] == [300, 300, 60, 60]
    assert not (train[0] | train[1]) & (test[0] | test[1])


def test_rows_are_the_same_for_the_same_seed_and_right_by_their_own_answer(library):
    task = ReasoningGym(dataset="numbers", train_rows=20, test_rows=0)
    rows = task.rows("train", 3)
    assert rows == task.rows("train", 3) != task.rows("train", 4) and task.rows("test", 3) == []
    assert rows[0]["messages"] == [{"role": "user", "content": rows[0]["question"]}]
    assert all(verify(Answer(row["answer"], row)).correct for row in rows)


def test_too_few_different_questions_are_an_error(library):
    with pytest.raises(DataError, match="gave [0-9]+ different train questions"):
        ReasoningGym(dataset="numbers", parameters={"modulus": 10}, train_rows=50).rows("train", 0)


def test_part_of_a_point_is_wrong_and_so_is_what_the_scorer_cannot_read(library):
    row = ReasoningGym(dataset="numbers", train_rows=1).rows("train", 0)[0]
    assert verify(Answer(f"<answer>{row['answer']}</answer>", row)).value == 1.0
    assert verify(Answer("0" if row["answer"] != "0" else "1", row)).value == 0.0
    unread = verify(Answer("no number", row))
    assert (unread.value, unread.correct) == (0.0, False) and "ValueError" in unread.reason
    assert verify(Answer("", row)).value == 0.0
    assert verify(Answer(row["answer"], row, "aborted")).value is None


def test_questions_whose_own_answer_scores_nothing_are_left_out(library, monkeypatch):
    monkeypatch.setattr(Generator, "score_answer", lambda self, answer, entry: float(int(answer) % 2 == 0))
    rows = ReasoningGym(dataset="numbers", train_rows=50).rows("train", 0)
    assert all(int(row["answer"]) % 2 == 0 for row in rows)


def test_unknown_names_and_parameters_are_errors(library):
    with pytest.raises(DataError, match="did you mean 'numbers'"):
        ReasoningGym(dataset="nmbers").rows("train", 0)
    with pytest.raises(DataError, match="refuses the parameters"):
        ReasoningGym(dataset="numbers", parameters={"size_of": 1}).rows("train", 0)
    with pytest.raises(DataError, match="modulus must be positive"):
        ReasoningGym(dataset="numbers", parameters={"modulus": 0}).rows("train", 0)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(DataError, match=r"pip install 'groupwise\[reasoning-gym\]'"):
        ReasoningGym(dataset="chain_sum").rows("train", 0)


CODE = '__import__("pathlib").Path("{path}").touch()'
EVALUATES = [
    ("countdown", {"numbers": [3, 4], "target": 7}, "3+4", "3+4"),
    ("puzzle24", {"numbers": [1, 2, 3, 4]}, "1*2*3*4", "4*3*2*1"),
    ("string_insertion", {}, "ABA", "ABA"),
    ("spiral_matrix", {}, "1 2 3", "1 2 3"),
    ("binary_matrix", {}, "0 1\n1 0", "0 1\n1 0"),
    ("n_queens", {"valid_answers": ["Q _\n_ Q"]}, "Q _\n_ Q", "Q _\n_ Q"),
]


@pytest.mark.parametrize("name, metadata, gold, right", EVALUATES, ids=[case[0] for case in EVALUATES])
def test_answers_to_data_sets_that_evaluate_them_are_scored_here_and_never_run(tmp_path, name, metadata, gold, right):
    columns = {"dataset": name, "metadata": metadata, "answer": gold, "question": "", "parameters": {}}
    assert verify(Answer(right, columns)).value == 1.0
    for wrong in (CODE.format(path=tmp_path / "ran"), "9**9**9", "", "[1, 2]", "7", "3+3", "1+2+3+4", "3*8"):
        assert verify(Answer(wrong, columns)).value == 0.0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", sorted(task_module.SYMBOLIC))
def test_symbolic_answers_that_are_no_algebra_never_reach_their_scorer(monkeypatch, name):
    seen = []
    monkeypatch.setattr(task_module, "_scorer", lambda *key: lambda answer, entry: seen.append(answer) or 1.0)
    columns = {"dataset": name, "metadata": {}, "answer": "x**2", "question": "", "parameters": {}}
    for text in (CODE.format(path="ran"), "9**9**9", "x.real", "x**2 + C"):
        verify(Answer(text, columns))
    assert seen == ["x**2 + C"]


@pytest.mark.parametrize(
    "text, answer",
    [
        ("12", "12"),
        (" 12.\n", "12"),
        ("I think <answer> 12 </answer> is it", "12"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("So the answer is 12.", "12"),
        ("Answer: x + 1\nbye", "x + 1"),
        ("", ""),
    ],
)
def test_what_is_taken_as_the_answer(text, answer):
    assert extract_answer(text) == answer


REAL = [
    ("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}),
    ("spell_backward", {"min_word_len": 3, "max_word_len": 4}),
    (
        "countdown",
        {
            "min_numbers": 2,
            "max_numbers": 3,
            "min_value": 1,
            "max_value": 10,
            "min_target": 2,
            "max_target": 30,
        },
    ),
    ("simple_integration", {}),
    ("polynomial_multiplication", {}),
    ("prime_factorization", {}),
    ("n_queens", {}),
]


@pytest.mark.parametrize("name, parameters", REAL, ids=[case[0] for case in REAL])
def test_the_library_itself(tmp_path, name, parameters):
    pytest.importorskip("reasoning_gym")
    task = ReasoningGym(dataset=name, parameters=parameters, train_rows=30, test_rows=6)
    train, test = task.rows("train", 0), task.rows("test", 0)
    assert not {row["question"] for row in train} & {row["question"] for row in test}
    for row in [*train, *test]:
        assert verify(Answer(row["answer"], row)).value == 1.0
        assert verify(Answer("", row)).value == 0.0
        assert verify(Answer(CODE.format(path=tmp_path / "ran"), row)).value == 0.0
    assert not (tmp_path / "ran").exists()
