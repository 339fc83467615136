"""The task `reasoning_gym`: the generators of reasoning-gym (Apache-2.0), its scorers made safe and strict.

Its items are generated from seeds, and item i of one seed is often item i-1 of the next; small configurations
also repeat themselves. So the splits draw from seed ranges that never meet, a question counts once (and not
at all where its scorer refuses its own answer), and whether a question is for training or for the test
depends on its text alone: no seed and no number of rows moves one from one to the other.

Some of its scorers hand the answer to `eval` or to sympy's parser, which runs it as Python code. An answer
never gets there unless it was read here first and is nothing but arithmetic (`groupwise.tasks.arithmetic`).
The rest may raise or not return: `verify` is meant for a reward worker, which has a time limit and can be
killed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from groupwise.errors import DataError
from groupwise.settings import Settings
from groupwise.tasks.arithmetic import evaluate, integers, is_polynomial_like
from groupwise.tasks.contract import Row, Split
from groupwise.tasks.instructions import Answered
from groupwise.tasks.keyed import digest
from groupwise.tasks.rows import suggestion
from groupwise.types import Score

FULL_SCORE = 0.99
"""Its scorers give part of a point for near misses and empty answers; only this much is right."""
TEST_SHARE = 5
"""One question in this many is for the test."""
SEED_STRIDE = 20_000_000
"""Seeds of one run's data set lie this far from another's; the test's lie half as far from the training
rows'."""
MOST_ROWS = 100_000
MOST_TRIES = 50
"""Items generated for each row wanted, before the configuration is said to have too few different
questions."""

EXACT_ONLY = {"string_insertion", "spiral_matrix", "binary_matrix"}
"""Their scorers `eval` an answer that is not the right one, to give a tenth of a point."""
SYMBOLIC = {"simple_integration", "intermediate_integration", "polynomial_multiplication"}
"""Their scorers parse the answer with sympy, which evaluates it."""


class ReasoningGym(Settings):
    """Questions of one reasoning-gym data set, asked as a user's message."""

    name: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str
    """Its name there, such as `chain_sum`."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Its settings there, such as `{ min_terms = 2, max_terms = 2 }`."""
    train_rows: int = Field(default=512, ge=1, le=MOST_ROWS)
    """How many different questions there are to train on."""
    test_rows: int = Field(default=64, ge=0, le=MOST_ROWS)
    """How many different questions there are to test on."""

    def rows(self, split: Split, seed: int) -> Sequence[Row]:
        """Different questions, the same for the same seed. Raises `DataError` where there are too few."""
        wanted = self.train_rows if split == "train" else self.test_rows
        if not wanted:
            return []
        start = (seed % 100) * SEED_STRIDE + (SEED_STRIDE // 2 if split == "test" else 0)
        questions: dict[str, dict[str, Any]] = {}
        data_set = _data_set(self.dataset, self.parameters, seed=start, size=MOST_TRIES * wanted)
        for index in range(len(data_set)):
            if len(questions) >= wanted:
                break
            item = data_set[index]
            if _split_of(item["question"]) == split and self._scores_its_answer(item):
                questions.setdefault(item["question"], item)
        if len(questions) < wanted:
            raise DataError(
                f"{self.dataset!r} with {self.parameters} gave {len(questions)} different {split} questions "
                f"in {len(data_set)} items, and {wanted} are asked for",
                fix=f"lower `{split}_rows` or widen `parameters`",
            )
        return [self._row(item) for item in questions.values()]

    def reward(self) -> Mapping[str, Any]:
        return {"name": "function", "target": "groupwise.tasks.reasoning_gym:verify", "label": "reasoning_gym"}

    def _scores_its_answer(self, item: Mapping[str, Any]) -> bool:
        """Whether the item's own answer, where it has one, earns the whole point; if not, no answer would."""
        return not isinstance(item["answer"], str) or _is_right(item["answer"], self._row(item))

    def _row(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": f"{self.dataset}.{digest(item['question'])[:12]}",
            "messages": [{"role": "user", "content": item["question"]}],
            "question": item["question"],
            "answer": item["answer"],
            "dataset": self.dataset,
            "parameters": dict(self.parameters),
            "metadata": item["metadata"],
        }


def verify(record: Answered) -> Score:
    """1.0 where the data set's scorer gives the answer (see `extract_answer`) the whole point, else 0.0."""
    columns = record.columns
    if record.finish_reason == "aborted":
        return Score(value=None, reason="sampling was aborted")
    answer = extract_answer(record.clean_text)
    try:
        correct = bool(answer) and _is_right(answer, columns)
    except Exception as error:  # each scorer raises what it likes for an answer of the wrong form
        return Score(0.0, correct=False, reason=f"the scorer can't read {answer[:200]!r} ({type(error).__name__})")
    return Score(float(correct), correct=correct, reason=f"answer taken: {answer[:200]!r}")


verify.columns = ["dataset", "parameters", "metadata", "question", "answer"]  # type: ignore[attr-defined]


def extract_answer(text: str) -> str:
    """What a completion gives as its answer.

    The text in its last `<answer>` tag; else what follows the last `answer is` or `answer:` on that line;
    else all of it. A full stop at the end, and white space, are left out.
    """
    tagged = re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
    named = re.findall(r"\banswer(?: is)?:? +(\S[^\n]*)", text, flags=re.IGNORECASE)
    found = tagged[-1] if tagged else named[-1] if named else text
    return found.strip().removesuffix(".").strip()


def _is_right(answer: str, columns: Mapping[str, Any]) -> bool:
    """Whether the answer earns the whole point, without running any of it as code."""
    name, metadata = columns["dataset"], columns["metadata"]
    if name in EXACT_ONLY:
        return answer == str(columns["answer"]).strip()
    if name == "n_queens":
        return answer in metadata["valid_answers"]
    if name in ("countdown", "puzzle24"):
        target = metadata["target"] if name == "countdown" else 24
        return integers(answer) == sorted(metadata["numbers"]) and evaluate(answer) == target
    if name in SYMBOLIC and not is_polynomial_like(answer):
        return False
    entry = {"question": columns["question"], "answer": columns["answer"], "metadata": metadata}
    score = _scorer(name, json.dumps(columns["parameters"], sort_keys=True))(answer, entry)
    return score is not None and float(score) >= FULL_SCORE


@lru_cache(maxsize=8)
def _scorer(name: str, parameters: str) -> Callable[[str, Mapping[str, Any]], float | None]:
    """The data set's own scorer; its parameters come as JSON text, so that they can be a key."""
    return _data_set(name, json.loads(parameters), seed=0, size=1).score_answer


def _data_set(name: str, parameters: Mapping[str, Any], seed: int, size: int) -> Any:
    """A reasoning-gym data set. Raises `DataError` where the library, the name or the parameters are
    wrong."""
    try:
        import reasoning_gym
    except ImportError as error:
        raise DataError(
            f"the task 'reasoning_gym' needs a package that is not installed ({error.name})",
            fix="run: pip install 'groupwise[reasoning-gym]'",
        ) from error
    known = reasoning_gym.factory.DATASETS
    if name not in known:
        raise DataError(f"reasoning-gym has no data set {name!r}{suggestion(name, known)}", fix="correct `dataset`")
    try:
        return reasoning_gym.create_dataset(name, seed=seed, size=size, **parameters)
    except (TypeError, ValueError, AssertionError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise DataError(
            f"{name!r} refuses the parameters {dict(parameters)} ({reason[:200]})", fix="correct `parameters`"
        ) from error


def _split_of(question: str) -> Split:
    return "test" if int(digest(question)[:8], 16) % TEST_SHARE == 0 else "train"
